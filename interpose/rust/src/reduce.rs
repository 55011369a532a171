//! What a reduction makes of the elements of all ranks.

use crate::memory::{sealed::Sealed, Number, Real};
use std::os::raw::c_int;

/// An operation on elements of type `T`: [`Sum`], [`Mean`], [`Min`] or [`Max`]. Integers have no mean.
pub trait Operation<T>: Sealed {
    /// The number in `enum ddp_operation`.
    #[doc(hidden)]
    const NUMBER: c_int;
}

/// The sum over all ranks. Integers wrap around on overflow.
#[derive(Clone, Copy, Debug)]
pub struct Sum;
/// The mean over all ranks, of floating-point elements.
#[derive(Clone, Copy, Debug)]
pub struct Mean;
/// The smallest of all ranks.
#[derive(Clone, Copy, Debug)]
pub struct Min;
/// The largest of all ranks.
#[derive(Clone, Copy, Debug)]
pub struct Max;

macro_rules! operations {
    ($($operation:ident = $number:literal of $elements:ident;)*) => {$(
        impl Sealed for $operation {}
        impl<T: $elements> Operation<T> for $operation {
            const NUMBER: c_int = $number;
        }
    )*};
}
operations! {
    Sum = 1 of Number;
    Mean = 2 of Real;
    Min = 3 of Number;
    Max = 4 of Number;
}
