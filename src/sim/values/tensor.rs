//! Blocks of numbers: a shared buffer and a strided view of it.

use super::element::{Element, Storage, with_dtype};
use super::view::{Line, View, addressable, walk};
use crate::dtype::DType;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// A block of numbers. Clones, slices and transpositions share the buffer of the original.
#[derive(Clone, Debug)]
pub struct Tensor {
    storage: Storage,
    view: View,
}

impl Tensor {
    /// A block from elements in row-major order; `None` if their number does not match the extents.
    pub fn from_vec<T: Element>(extents: &[u64], elements: Vec<T>) -> Option<Tensor> {
        let extents = addressable(extents)?;
        (extents.iter().product::<usize>() == elements.len()).then(|| Tensor::owned(&extents, elements))
    }

    /// A block of any dtype from integers, which wrap; `None` if their number does not match the extents.
    pub fn from_integers(dtype: DType, extents: &[u64], elements: &[i64]) -> Option<Tensor> {
        with_dtype!(dtype, T => {
            Tensor::from_vec::<T>(extents, elements.iter().map(|element| <T as Element>::from_i64(*element)).collect())
        })
    }

    /// A block of any dtype from floats, rounded to nearest; `None` if their number does not match the extents.
    pub fn from_floats(dtype: DType, extents: &[u64], elements: &[f64]) -> Option<Tensor> {
        with_dtype!(dtype, T => {
            Tensor::from_vec::<T>(extents, elements.iter().map(|element| <T as Element>::from_f64(*element)).collect())
        })
    }

    /// A block that fills its buffer. The number of elements must match the extents.
    pub(super) fn owned<T: Element>(extents: &[usize], elements: Vec<T>) -> Tensor {
        debug_assert_eq!(extents.iter().product::<usize>(), elements.len(), "the buffer is the block");
        Tensor { storage: T::wrap(Arc::new(elements)), view: View::row_major(extents) }
    }

    /// Dtype of its elements.
    pub fn dtype(&self) -> DType {
        self.storage.dtype()
    }

    /// Length of each dim.
    pub fn extents(&self) -> Vec<u64> {
        self.view.extents.iter().map(|extent| *extent as u64).collect()
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.view.elements() as u64
    }

    /// The elements in row-major order, if they have this type.
    pub fn to_vec<T: Element>(&self) -> Option<Vec<T>> {
        T::open(&self.storage)?;
        Some(self.collect(|element: T| element))
    }

    /// The elements in row-major order as integers; floats are truncated towards zero.
    pub fn to_i64s(&self) -> Vec<i64> {
        with_dtype!(self.dtype(), T => self.collect(|element: T| element.to_i64()))
    }

    /// The elements in row-major order as floats.
    pub fn to_f64s(&self) -> Vec<f64> {
        with_dtype!(self.dtype(), T => self.collect(|element: T| Element::to_f64(element)))
    }

    /// A box of the block, sharing the buffer; `None` if it exceeds the block.
    pub fn slice(&self, ranges: &[Range<u64>]) -> Option<Tensor> {
        let fits = ranges.len() == self.view.extents.len()
            && ranges.iter().zip(&self.view.extents).all(|(range, extent)| {
                range.start <= range.end && usize::try_from(range.end).is_ok_and(|end| end <= *extent)
            });
        let index = |at: u64| usize::try_from(at).ok();
        let ranges: Option<Vec<Range<usize>>> =
            ranges.iter().map(|range| Some(index(range.start)?..index(range.end)?)).collect();
        ranges.filter(|_| fits).map(|ranges| self.with_view(self.view.cut(&ranges)))
    }

    /// The blocks that it stacks along its first dim, sharing the buffer; none of a single element without dims.
    pub fn unstacked(&self) -> Vec<Tensor> {
        let Some((count, block)) = self.view.extents.split_first() else { return Vec::new() };
        let rest = || block.iter().map(|extent| 0..*extent);
        let cut = |at| self.view.cut(&std::iter::once(at..at + 1).chain(rest()).collect::<Vec<_>>());
        (0..*count).map(|at| self.with_view(cut(at)).reshaped(block)).collect()
    }

    /// The view of the buffer.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// The same buffer with another view.
    pub(super) fn with_view(&self, view: View) -> Tensor {
        Tensor { storage: self.storage.clone(), view }
    }

    /// The whole buffer, if its elements have this type.
    ///
    /// # Panics
    /// If they do not; callers check the dtype first.
    pub(super) fn buffer<T: Element>(&self) -> &[T] {
        T::open(&self.storage).expect("the dtype was asked for")
    }

    /// Converts each element, in row-major order.
    pub(super) fn collect<T: Element, U>(&self, convert: impl Fn(T) -> U) -> Vec<U> {
        let mut elements = Vec::with_capacity(self.view.elements());
        self.append(&mut elements, convert);
        elements
    }

    /// Appends its elements in row-major order.
    pub(super) fn append_to<T: Element>(&self, elements: &mut Vec<T>) {
        self.append(elements, |element: T| element);
    }

    fn append<T: Element, U>(&self, elements: &mut Vec<U>, convert: impl Fn(T) -> U) {
        let buffer = self.buffer::<T>();
        walk(
            &self.view.extents,
            [self.view.offset],
            [&self.view.strides],
            |Line { starts: [start], steps, length }| {
                if steps == [1] {
                    elements.extend(buffer[start..start + length].iter().map(|element| convert(*element)));
                } else {
                    elements.extend((0..length).map(|i| convert(buffer[start + i * steps[0]])));
                }
            },
        );
    }

    /// Visits each element in row-major order.
    pub(super) fn visit<T: Element>(&self, mut see: impl FnMut(T)) {
        let buffer = self.buffer::<T>();
        walk(&self.view.extents, [self.view.offset], [&self.view.strides], |Line { starts, steps, length }| {
            (0..length).for_each(|i| see(buffer[starts[0] + i * steps[0]]));
        });
    }

    /// The same elements with other extents of the same product; copies only if strides cannot express them.
    pub(super) fn reshaped(&self, extents: &[usize]) -> Tensor {
        if let Some(view) = self.view.reshaped(extents) {
            return self.with_view(view);
        }
        with_dtype!(self.dtype(), T => Tensor::owned(extents, self.collect(|element: T| element)))
    }

    /// The buffer itself, if it is not shared and the block fills it.
    pub(super) fn into_buffer<T: Element>(self) -> Result<Vec<T>, Tensor> {
        let fills = self.view.offset == 0 && self.view.is_contiguous();
        let Tensor { storage, view } = self;
        if !fills || T::open(&storage).is_none_or(|buffer| buffer.len() != view.elements()) {
            return Err(Tensor { storage, view });
        }
        let buffer = T::unwrap(storage).expect("checked above");
        Arc::try_unwrap(buffer).map_err(|shared| Tensor { storage: T::wrap(shared), view })
    }

    /// The elements in another arithmetic, with their view; copies only if the type differs.
    pub(super) fn read_as<C: super::element::Arithmetic>(&self) -> (Cow<'_, [C]>, View) {
        if let Some(buffer) = C::open(&self.storage) {
            return (Cow::Borrowed(buffer), self.view.clone());
        }
        let elements = with_dtype!(self.dtype(), T => self.collect(|element: T| C::read(element)));
        (Cow::Owned(elements), View::row_major(&self.view.extents))
    }
}
