//! The product of two strided matrices, by `matrixmultiply`.

use std::fmt::Debug;

/// A read-only matrix in a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix<'a, T> {
    /// Buffer, starting at the first element.
    pub(super) data: &'a [T],
    /// Rows and columns.
    pub(super) size: [usize; 2],
    /// Distance between neighbouring rows and columns.
    pub(super) strides: [usize; 2],
}

/// How the result is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// The product replaces the previous elements.
    Replaced,
    /// The product is added to the previous elements.
    Added,
}

/// Number types that can be multiplied.
pub(super) trait Gemm: super::element::Arithmetic {
    /// Computes `c = a b` or `c += a b`. Element (`i`, `j`) of c is at `i * strides[0] + j * strides[1]`.
    ///
    /// Floats accumulate in their own type, integers wrap.
    ///
    /// # Panics
    /// If the sizes do not match, a matrix exceeds its buffer, or elements of c overlap.
    fn multiply(a: Matrix<'_, Self>, b: Matrix<'_, Self>, c: &mut [Self], strides: [usize; 2], before: Before);
}

/// Products with fewer multiplications use plain loops, as a kernel call would cost more.
const SMALL: usize = 256;

/// Distance from the first element of a matrix to the last.
fn reach(size: [usize; 2], strides: [usize; 2]) -> Option<usize> {
    let rows = size[0].checked_sub(1)?.checked_mul(strides[0])?;
    size[1].checked_sub(1)?.checked_mul(strides[1])?.checked_add(rows)
}

/// Checks the kernels' preconditions: no access outside the buffers, and no overlapping elements in c.
fn check<T>(a: Matrix<'_, T>, b: Matrix<'_, T>, c: &[T], strides: [usize; 2]) {
    let size = [a.size[0], b.size[1]];
    assert_eq!(a.size[1], b.size[0], "the inner lengths meet");
    assert!(reach(a.size, a.strides).is_some_and(|last| last < a.data.len()), "a lies in its buffer");
    assert!(reach(b.size, b.strides).is_some_and(|last| last < b.data.len()), "b lies in its buffer");
    assert!(reach(size, strides).is_some_and(|last| last < c.len()), "c lies in its buffer");
    let [(inner, step), (outer, stride)] = if strides[0] < strides[1] {
        [(size[0], strides[0]), (size[1], strides[1])]
    } else {
        [(size[1], strides[1]), (size[0], strides[0])]
    };
    assert!(inner == 1 || step > 0, "the elements of a line of c differ");
    assert!(outer == 1 || stride > (inner - 1) * step, "the lines of c do not meet");
}

/// Three nested loops, columns innermost. The sums start at `zero`, or at the previous elements.
fn loops<T: Copy>(
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    c: &mut [T],
    strides: [usize; 2],
    zero: Option<T>,
    fma: impl Fn(T, T, T) -> T,
) {
    for i in 0..a.size[0] {
        if let Some(zero) = zero {
            (0..b.size[1]).for_each(|j| c[i * strides[0] + j * strides[1]] = zero);
        }
        for k in 0..a.size[1] {
            let factor = a.data[i * a.strides[0] + k * a.strides[1]];
            for j in 0..b.size[1] {
                let place = i * strides[0] + j * strides[1];
                c[place] = fma(c[place], factor, b.data[k * b.strides[0] + j * b.strides[1]]);
            }
        }
    }
}

/// Both kernels of the library have the same signature.
macro_rules! kernel {
    ($type:ty, $kernel:path) => {
        impl Gemm for $type {
            #[expect(unsafe_code, reason = "the library's only interface is unsafe; `check` proves what it asks for")]
            fn multiply(a: Matrix<'_, Self>, b: Matrix<'_, Self>, c: &mut [Self], strides: [usize; 2], before: Before) {
                check(a, b, c, strides);
                let ([m, k], n) = (a.size, b.size[1]);
                if m.saturating_mul(k).saturating_mul(n) <= SMALL {
                    return loops(a, b, c, strides, (before == Before::Replaced).then_some(0.0), |sum, x, y| {
                        sum + x * y
                    });
                }
                // A stride between two elements of one slice fits an isize. With a single line, the stride is unused.
                let step = |stride: usize| isize::try_from(stride).unwrap_or(1);
                // SAFETY: `check` has shown that all elements of a and b lie in their slices, and that those of c lie
                // in its slice and are distinct. c is borrowed exclusively, so it overlaps neither a nor b.
                unsafe {
                    $kernel(
                        m,
                        k,
                        n,
                        1.0,
                        a.data.as_ptr(),
                        step(a.strides[0]),
                        step(a.strides[1]),
                        b.data.as_ptr(),
                        step(b.strides[0]),
                        step(b.strides[1]),
                        if before == Before::Added { 1.0 } else { 0.0 },
                        c.as_mut_ptr(),
                        step(strides[0]),
                        step(strides[1]),
                    );
                }
            }
        }
    };
}

kernel!(f32, matrixmultiply::sgemm);
kernel!(f64, matrixmultiply::dgemm);

impl Gemm for i64 {
    fn multiply(a: Matrix<'_, Self>, b: Matrix<'_, Self>, c: &mut [Self], strides: [usize; 2], before: Before) {
        check(a, b, c, strides);
        loops(a, b, c, strides, (before == Before::Replaced).then_some(0), |sum, x, y| {
            sum.wrapping_add(x.wrapping_mul(y))
        });
    }
}
