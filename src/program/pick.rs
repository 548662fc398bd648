//! The words of functions that pick elements by position, and their forms.

/// A function that picks by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// `onehot_V(ids)`
    OneHot,
    /// `take_V(E, ids)`
    Take,
    /// `scatter_V(u, ids)`
    Scatter,
    /// `slice_{S->T}(x, 3)`
    Slice,
    /// `pad_{S->T}(x, 3)`
    Pad,
    /// `concat_{S,R->T}(a, b)`
    Concat,
    /// `stack_K(a, b)`
    Stack,
    /// `shift_S(x, 1)`
    Shift,
    /// `roll_S(x, 1)`
    Roll,
    /// `reverse_S(x)`
    Reverse,
    /// `cumsum_S(x)`
    CumSum,
    /// `argmax_V(x)`
    ArgMax,
    /// `argmin_V(x)`
    ArgMin,
    /// `top_{E->K}(x)`
    Top,
    /// `argtop_{E->K}(x)`
    ArgTop,
}

impl Pick {
    const ALL: [Pick; 15] = [
        Pick::OneHot,
        Pick::Take,
        Pick::Scatter,
        Pick::Slice,
        Pick::Pad,
        Pick::Concat,
        Pick::Stack,
        Pick::Shift,
        Pick::Roll,
        Pick::Reverse,
        Pick::CumSum,
        Pick::ArgMax,
        Pick::ArgMin,
        Pick::Top,
        Pick::ArgTop,
    ];

    /// Its word and its form.
    pub(super) const fn facts(self) -> (&'static str, &'static str) {
        match self {
            Pick::OneHot => ("onehot", "`onehot_V(ids)`"),
            Pick::Take => ("take", "`take_V(E, ids)`"),
            Pick::Scatter => ("scatter", "`scatter_V(u, ids)`, which adds each row of `u` to row `ids` of zeros"),
            Pick::Slice => ("slice", "`slice_{S->T}(x, 3)`, which begins at 3"),
            Pick::Pad => ("pad", "`pad_{S->T}(x, 3)`, with 3 zeros before it"),
            Pick::Concat => ("concat", "`concat_{S,R->T}(a, b)`"),
            Pick::Stack => ("stack", "`stack_K(a, b)`"),
            Pick::Shift => ("shift", "`shift_S(x, 1)`"),
            Pick::Roll => ("roll", "`roll_S(x, 1)`, with a number"),
            Pick::Reverse => ("reverse", "`reverse_S(x)`"),
            Pick::CumSum => ("cumsum", "`cumsum_S(x)`"),
            Pick::ArgMax => ("argmax", "`argmax_V(x)`"),
            Pick::ArgMin => ("argmin", "`argmin_V(x)`"),
            Pick::Top => ("top", "`top_{E->K}(x)`"),
            Pick::ArgTop => ("argtop", "`argtop_{E->K}(x)`"),
        }
    }

    /// The function of a word.
    pub(super) fn named(word: &str) -> Option<Pick> {
        Pick::ALL.into_iter().find(|pick| pick.facts().0 == word)
    }

    /// All words.
    pub(super) fn words<'a>() -> impl Iterator<Item = &'a str> {
        Pick::ALL.into_iter().map(|pick| pick.facts().0)
    }

    /// Whether it moves elements along one dim, which then needs a second name.
    pub(super) fn is_along(self) -> bool {
        matches!(self, Pick::Shift | Pick::Reverse | Pick::CumSum)
    }

    /// Whether the number of arguments fits.
    pub(super) fn takes(self, count: usize) -> bool {
        match self {
            Pick::Take | Pick::Scatter => count == 2,
            Pick::Slice | Pick::Pad => count == 1 || count == 2,
            Pick::Shift | Pick::Roll => count == 2,
            Pick::Concat | Pick::Stack => count >= 2,
            Pick::OneHot | Pick::Reverse | Pick::CumSum | Pick::ArgMax | Pick::ArgMin | Pick::Top | Pick::ArgTop => {
                count == 1
            }
        }
    }

    /// Whether the number of dims in the subscript fits.
    pub(super) fn takes_dims(self, dims: usize, arguments: usize) -> bool {
        match self {
            Pick::Slice | Pick::Pad | Pick::Top | Pick::ArgTop => dims == 2,
            Pick::Concat => dims == 2 || dims == arguments + 1,
            Pick::OneHot
            | Pick::Take
            | Pick::Scatter
            | Pick::Stack
            | Pick::Shift
            | Pick::Roll
            | Pick::Reverse
            | Pick::CumSum
            | Pick::ArgMax
            | Pick::ArgMin => dims == 1,
        }
    }
}
