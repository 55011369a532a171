//! Annotations for ddprun: `ddprun -n 8 ./train` makes a program that trains on one GPU train data-parallel on eight.
//!
//! ddprun starts one process, a *rank*, for each GPU, and averages gradients over the ranks with NCCL while backward runs.
//! The program says which memory holds parameters and gradients, and where a step is. Without ddprun, and on systems where
//! ddprun does not run, each call of this crate does nothing: the rank is 0, the world size 1, a shard is the whole batch.
//!
//! ```
//! # struct DeviceBuffer(u64, usize);
//! # impl DeviceBuffer { fn zeros(n: usize) -> Self { DeviceBuffer(0, n) } }
//! # unsafe impl ddprun::Memory for DeviceBuffer {
//! #     type Element = f32;
//! #     fn address(&self) -> u64 { self.0 }
//! #     fn count(&self) -> usize { self.1 }
//! # }
//! # fn initialise(_: &DeviceBuffer) {}
//! # fn forward_and_backward(_: &DeviceBuffer, _: &DeviceBuffer, _: std::ops::Range<usize>) {}
//! # fn sgd(_: &DeviceBuffer, _: &DeviceBuffer) {}
//! use ddprun::{shard, Ddp, Stream};
//!
//! let ddp = Ddp::take();
//! let weights = DeviceBuffer::zeros(1024); // your type of buffer: it implements `ddprun::Memory`
//! initialise(&weights);
//! let weights = ddp.parameter("w", weights); // after the initialisation: all ranks take rank 0's values
//! let gradient = ddp.gradient("dw", DeviceBuffer::zeros(1024));
//! for step in 0..100 {
//!     let share = shard(64); // this rank's part of each batch
//!     forward_and_backward(&weights, &gradient, share.range()); // divides the loss by share.count()
//!     ddp.step(Stream::DEFAULT); // from here on `gradient` holds the mean over all ranks
//!     sgd(&weights, &gradient);
//! }
//! ```
//!
//! `ddprun check ./train` then compares two ranks with one process, and names what is wrong.
//!
//! # The contract of an annotation
//! A kernel reaches a gradient only through a pointer that is one of its arguments, that is inside a struct passed by value,
//! or that the host wrote to memory. A library call reaches a gradient only through its documented pointer arguments.
//! Gradients keep their memory from step to step: zero them, do not replace them.
//!
//! # What is unsafe
//! - To implement [`Memory`], or to make a [`Raw`]: an annotation lets ddprun read and write the memory in later calls, so
//!   the program promises that the memory is there. The annotation then owns it, and ends before it is freed.
//! - [`Annotated::get_mut`]: the buffer must not be replaced while it is annotated.
//! - [`Stream::from_raw`]: CUDA dereferences the handle.
//!
//! All else is safe. Annotating, stepping and reducing memory that keeps these promises cannot break memory safety.
//!
//! # Threads
//! [`Ddp`] and annotations stay in the thread that trains. [`rank`], [`world_size`], [`local_rank`] and [`shard`] are for every
//! thread, and for processes that load data.
//!
//! # Errors
//! Misuse that the compiler cannot see ends the whole job with one line that names the rank and the line of the source, and no
//! call returns an error. Two misuses panic, in [`Ddp::take`] and [`Group::new`]. A rank that panics ends the job with Rust's
//! exit code 101. What ends the job is said at each method, and at the macro of `ddprun.h` that it names (`man ddprun.h`).
//!
//! # Units
//! Counts are elements, not bytes. Addresses are those of the driver: a `CUdeviceptr`, which for host memory is the pointer.
#![deny(missing_docs)]
#![warn(unsafe_op_in_unsafe_fn)]

mod annotation;
mod ddp;
mod interface;
mod memory;
mod owner;
mod reduce;
mod stream;
mod turn;

pub use annotation::{kind, Annotated, Buffer, Gradient, Parameter, State};
pub use ddp::{Ddp, Group, Grouped, NoSync};
pub use memory::{Bf16, Element, Memory, Number, Raw, Real, Scalar, StateElement, F16};
pub use reduce::{Max, Mean, Min, Operation, Sum};
pub use stream::Stream;
pub use turn::{Turn, Update};

use std::ops::Range;

/// This process's rank, 0 to [`world_size()`]` - 1`. 0 without ddprun. Any thread.
pub fn rank() -> usize {
    // SAFETY: the function has no arguments.
    interface::get().map_or(0, |interface| unsafe { (interface.rank)() } as usize)
}

/// The number of ranks. 1 without ddprun. Any thread.
pub fn world_size() -> usize {
    // SAFETY: the function has no arguments.
    interface::get().map_or(1, |interface| unsafe { (interface.world_size)() } as usize)
}

/// The number of this rank among those on its node. 0 without ddprun. Any thread.
pub fn local_rank() -> usize {
    // SAFETY: the function has no arguments.
    interface::get().map_or(0, |interface| unsafe { (interface.local_rank)() } as usize)
}

/// A rank's part of a batch: [`shard`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    first: usize,
    count: usize,
    total: usize,
}

impl Shard {
    /// The first item's number in the batch.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The number of this rank's items. Divide the loss by it.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The number of all ranks' items: the size of the batch.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The numbers of this rank's items in the batch.
    pub fn range(&self) -> Range<usize> {
        self.first..self.first + self.count
    }
}

/// This rank's part of a batch of `total` items. `DDP_SHARD`. All items without ddprun. Any thread.
///
/// Shares differ by at most one item. If they differ, the mean of the ranks' means is not the mean over the batch; ddprun
/// reports this once, and [`Ddp::weight`] corrects it: `ddp.weight(share.count(), share.total())`. The job ends with one line
/// in a program that has turns.
#[track_caller]
pub fn shard(total: usize) -> Shard {
    let site = interface::site("shard");
    let (mut first, mut count) = (0, total);
    if let Some(interface) = interface::get() {
        // SAFETY: both numbers live until the call returns.
        unsafe { (interface.shard)(total, &mut first, &mut count, site) }
    }
    Shard { first, count, total }
}
