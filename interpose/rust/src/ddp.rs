//! The handle of a training: annotations, steps, and numbers over all ranks.

use crate::annotation::{Annotated, Buffer, Gradient, Parameter, State};
use crate::interface::{c_string, get, site, Interface, Site};
use crate::memory::{Element, Memory, Number, Real, Scalar, StateElement};
use crate::owner::{self, Holder};
use crate::reduce::Operation;
use crate::stream::Stream;
use crate::turn::Turn;
use std::marker::PhantomData;
use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

/// A group of gradients that has steps of its own, 0 to 15: for programs with several optimizers. [`Ddp::group`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(c_int);

impl Group {
    /// The group of all that is annotated without a group.
    pub const DEFAULT: Group = Group(0);

    /// The group of this number. Write it as a `const`, and a wrong number does not compile.
    ///
    /// # Panics
    /// If `id` is above 15.
    pub const fn new(id: u8) -> Group {
        assert!(id < 16, "a Group has a number from 0 to 15");
        Group(id as c_int)
    }

    pub(crate) fn id(self) -> c_int {
        self.0
    }
}

/// The one handle of a training: it annotates memory, steps, and asks all ranks.
///
/// It is neither `Send` nor `Sync`: the thread that takes it trains, and ddprun writes annotated memory during its calls
/// only, or on the device. Calls that wait for the other ranks are methods of it, so that they cannot be made from two
/// threads. [`rank`](crate::rank) and [`shard`](crate::shard) are functions, for every thread.
pub struct Ddp {
    _holder: Holder,
    not_send: PhantomData<*const ()>,
}

impl Ddp {
    /// The handle of this process. Pass a reference to what needs it.
    ///
    /// # Panics
    /// If this thread has one already, or, when ddprun has started the program, another thread has one or annotated memory.
    #[track_caller]
    pub fn take() -> Ddp {
        let holder = Holder::new();
        let holder = holder.expect("Ddp::take() in another thread than the one that trains, by a Ddp or annotated memory");
        assert!(owner::take(), "Ddp::take() a second time in one thread; pass a reference to the first Ddp");
        Ddp { _holder: holder, not_send: PhantomData }
    }

    // ---- annotations ----

    /// `memory` holds weights. `DDP_PARAMETER`.
    ///
    /// Call it after their initialisation, once for each tensor, before the first step, in the same order on all ranks. At
    /// once all ranks take the values of rank 0, after all work that this process has enqueued. `name` stands in messages.
    ///
    /// The job ends with one line for a range that overlaps another annotated one, that goes beyond its allocation, or that
    /// has another name, count, type or line on another rank.
    #[track_caller]
    pub fn parameter<M: Memory>(&self, name: &str, memory: M) -> Parameter<M>
    where
        M::Element: Real,
    {
        self.group(Group::DEFAULT).parameter(name, memory)
    }

    /// `memory` holds state of the optimizer: momentum, moments, counters. `DDP_STATE`. Call it after the state is initialised
    /// or read from a checkpoint: all ranks take rank 0's values at once, and ddprun compares the ranks' state as it compares
    /// parameters.
    #[track_caller]
    pub fn state<M: Memory>(&self, name: &str, memory: M) -> State<M>
    where
        M::Element: StateElement,
    {
        self.group(Group::DEFAULT).state(name, memory)
    }

    /// `memory` receives a gradient during backward. `DDP_GRADIENT`.
    ///
    /// Call it before the first step. From each step to the next write the memory holds the mean over all ranks. Each rank
    /// divides its loss by the size of its own share.
    #[track_caller]
    pub fn gradient<M: Memory>(&self, name: &str, memory: M) -> Gradient<M>
    where
        M::Element: Real,
    {
        self.group(Group::DEFAULT).gradient(name, memory)
    }

    /// `memory` holds state that is no parameter, for example running statistics. `DDP_BUFFER`: at every step, of any group,
    /// all ranks take the bytes of rank 0, in stream order.
    #[track_caller]
    pub fn buffer<M: Memory>(&self, name: &str, memory: M) -> Buffer<M>
    where
        M::Element: Real,
    {
        let site = site(name);
        // SAFETY: `Memory` promises the range.
        Annotated::new(memory, site, |interface, at, memory| unsafe {
            (interface.buffer)(at, memory.count(), <M::Element as Element>::TYPE, site)
        })
    }

    /// Annotations and steps of a group: `ddp.group(CRITIC).gradient(...)`, `ddp.group(CRITIC).step(...)`.
    pub fn group(&self, group: Group) -> Grouped<'_> {
        Grouped { group, of: PhantomData }
    }

    // ---- the step ----

    /// The gradients hold the mean over all ranks for work that is enqueued on `stream` after this call. `DDP_STEP`.
    ///
    /// Call it after backward and before the first use of the gradients (clipping, norms, the optimizer), once for each
    /// update, the same number of times on all ranks. For gradients in host memory it waits for the device, and returns when
    /// the averages are in place. The job ends with one line if no gradient is annotated, or ranks annotated different things.
    #[track_caller]
    pub fn step(&self, stream: Stream) {
        self.group(Group::DEFAULT).step(stream);
    }

    /// The parameters hold the mean over all ranks: for programs that update inside backward and have no gradients, or that
    /// average after every K-th update. `DDP_STEP_PARAMETERS`. Call it after the update.
    #[track_caller]
    pub fn step_parameters(&self, stream: Stream) {
        self.group(Group::DEFAULT).step_parameters(stream);
    }

    /// Backward passes of a gradient accumulation but the last, until the guard is dropped. `DDP_NO_SYNC_BEGIN`. Not needed
    /// if the number of passes is constant. A step while the guard lives does not compile.
    ///
    /// ```
    /// # fn backward(_: usize) {}
    /// # let mut ddp = ddprun::Ddp::take();
    /// # let (passes, stream) = (3, ddprun::Stream::DEFAULT);
    /// {
    ///     let _accumulates = ddp.no_sync();
    ///     (1..passes).for_each(|pass| backward(pass));
    /// }
    /// backward(passes); // the last pass: gradients are sent as soon as they are complete
    /// ddp.step(stream);
    /// ```
    #[track_caller]
    pub fn no_sync(&mut self) -> NoSync<'_> {
        let site = site("no_sync");
        if let Some(interface) = get() {
            // SAFETY: the site is never freed.
            unsafe { (interface.no_sync)(1, site) }
        }
        NoSync { site, of: PhantomData }
    }

    /// The batch that follows is computed by one rank, in its turn: N ranks train N batches in the time of one.
    /// `DDP_TURN_BEGIN`; [`Turn`] has the rules. The region ends when the guard is dropped.
    #[track_caller]
    #[must_use = "the region ends when the guard is dropped: `let turn = ddp.turn();`"]
    pub fn turn(&mut self) -> Turn<'_> {
        Turn::begin(site("turn"))
    }

    // ---- numbers over all ranks ----

    /// The mean of `value` over all ranks, with the same bits on all: a loss to print. `DDP_MEAN`. It blocks until all ranks
    /// have called it. Without ddprun it is `value`.
    #[track_caller]
    pub fn mean<T: Scalar>(&self, value: T) -> T {
        mean(None, value, site("mean"))
    }

    /// As [`mean`](Ddp::mean), and ddprun shows the value under this label in its progress line, page and summary; 31 bytes of
    /// it are shown. `DDP_MEAN_AS`. The job ends with one line if the label is empty.
    #[track_caller]
    pub fn mean_as<T: Scalar>(&self, label: &str, value: T) -> T {
        mean(Some(label), value, site("mean_as"))
    }

    /// Whether `flag` is true on one rank at least; the same answer on all ranks, so that all leave a loop at the same step.
    /// `DDP_ANY`. It blocks until all ranks have called it. Without ddprun it is `flag`.
    #[track_caller]
    pub fn any(&self, flag: bool) -> bool {
        any(flag, site("any"))
    }

    /// Replaces each element of `memory` by its sum, mean, minimum or maximum over all ranks. `DDP_REDUCE`.
    ///
    /// It needs no annotation and no step. Memory of the device is reduced in the order of `stream`, and the host does not
    /// wait; for host and managed memory the result is there when the call returns. All ranks make the same calls in the same
    /// order. Annotated gradients are refused. Without ddprun it does nothing.
    #[track_caller]
    pub fn reduce<M, O>(&self, operation: O, memory: &M, stream: Stream)
    where
        M: Memory + ?Sized,
        M::Element: Number,
        O: Operation<M::Element>,
    {
        let _ = operation;
        let site = site("reduce");
        if let Some(interface) = get() {
            // SAFETY: `Memory` promises the range.
            unsafe { reduce::<M::Element, O>(interface, memory.address(), memory.count(), stream, site) }
        }
    }

    /// As [`reduce`](Ddp::reduce), of elements on the host: they are reduced when the call returns.
    ///
    /// ```
    /// # let ddp = ddprun::Ddp::take();
    /// let mut histogram = [3i64, 1, 4];
    /// ddp.reduce_slice(ddprun::Sum, &mut histogram);
    /// ```
    #[track_caller]
    pub fn reduce_slice<T, O>(&self, operation: O, elements: &mut [T])
    where
        T: Number,
        O: Operation<T>,
    {
        let _ = operation;
        let site = site("reduce_slice");
        if let Some(interface) = get() {
            // SAFETY: the slice is borrowed alone until the call returns, and the call waits.
            unsafe {
                reduce::<T, O>(interface, elements.as_mut_ptr() as u64, elements.len(), Stream::DEFAULT, site);
            }
        }
    }

    /// This rank's gradient in the coming step is the mean over `count` of the `total` items of all ranks: for shares of
    /// unequal size. `DDP_WEIGHT`.
    ///
    /// Call it before the backward pass, on all ranks in the same steps. Calls before one step add up. The job ends with one
    /// line if `count` is above `total`, if totals differ between ranks, and if the counts do not add up to the total.
    #[track_caller]
    pub fn weight(&self, count: usize, total: usize) {
        let site = site("weight");
        if let Some(interface) = get() {
            // SAFETY: the site is never freed.
            unsafe { (interface.weight)(count, total, site) }
        }
    }

    /// Calls `write` on rank 0 alone: to save a checkpoint, to print. `None` on the other ranks.
    ///
    /// The closure cannot reach the `Ddp`: a call in it that waits for the other ranks would wait for ever, and does not
    /// compile. Average before it: `let loss = ddp.mean(loss);`.
    pub fn on_first_rank<R>(&mut self, write: impl FnOnce() -> R) -> Option<R> {
        if crate::rank() == 0 {
            return Some(write());
        }
        None
    }
}

impl Drop for Ddp {
    fn drop(&mut self) {
        owner::give_back();
    }
}

pub(crate) fn mean<T: Scalar>(label: Option<&str>, mut value: T, site: &'static Site) -> T {
    if let Some(interface) = get() {
        let label = label.map(c_string);
        let label = label.as_ref().map_or(std::ptr::null(), |label| label.as_ptr());
        let at = &mut value as *mut T as *mut c_void;
        // SAFETY: `value` has the type that is named, and the label lives until the call returns.
        unsafe { (interface.mean_of)(label, at, T::TYPE, site) }
    }
    value
}

pub(crate) fn any(flag: bool, site: &'static Site) -> bool {
    let mut flag = c_int::from(flag);
    match get() {
        // SAFETY: the flag lives until the call returns.
        Some(interface) => unsafe { (interface.any)(&mut flag, site) != 0 },
        None => flag != 0,
    }
}

/// # Safety
/// `count` elements of type `T` at `address` may be written.
unsafe fn reduce<T: Element, O: Operation<T>>(
    interface: &Interface,
    address: u64,
    count: usize,
    stream: Stream,
    site: &'static Site,
) {
    let at = address as usize as *mut c_void;
    // SAFETY: the caller's promise; of the stream `Stream::from_raw` was promised.
    unsafe { (interface.reduce)(at, count, T::TYPE, O::NUMBER, stream.handle(), site) }
}

/// The annotations and steps of one group. [`Ddp::group`] makes it; each method is as that of [`Ddp`].
pub struct Grouped<'a> {
    group: Group,
    of: PhantomData<&'a Ddp>,
}

impl Grouped<'_> {
    /// As [`Ddp::parameter`], in this group. Only [`step_parameters`](Grouped::step_parameters) asks for the group.
    #[track_caller]
    pub fn parameter<M: Memory>(&self, name: &str, memory: M) -> Parameter<M>
    where
        M::Element: Real,
    {
        let site = site(name);
        // SAFETY: `Memory` promises the range.
        Annotated::new(memory, site, |interface, at, memory| unsafe {
            self.choose(interface, site);
            (interface.parameter)(at, memory.count(), <M::Element as Element>::TYPE, site);
        })
    }

    /// As [`Ddp::state`], in this group. Only [`step_parameters`](Grouped::step_parameters) asks for the group.
    #[track_caller]
    pub fn state<M: Memory>(&self, name: &str, memory: M) -> State<M>
    where
        M::Element: StateElement,
    {
        let site = site(name);
        // SAFETY: `Memory` promises the range.
        Annotated::new(memory, site, |interface, at, memory| unsafe {
            self.choose(interface, site);
            (interface.state)(at, memory.count(), <M::Element as Element>::TYPE, site);
        })
    }

    /// As [`Ddp::gradient`], in this group.
    #[track_caller]
    pub fn gradient<M: Memory>(&self, name: &str, memory: M) -> Gradient<M>
    where
        M::Element: Real,
    {
        let site = site(name);
        // SAFETY: `Memory` promises the range.
        Annotated::new(memory, site, |interface, at, memory| unsafe {
            self.choose(interface, site);
            (interface.gradient)(at, memory.count(), <M::Element as Element>::TYPE, site);
        })
    }

    /// As [`Ddp::step`], for the gradients of this group only. All ranks step the groups in the same order.
    #[track_caller]
    pub fn step(&self, stream: Stream) {
        step(self.group, stream, site("step"));
    }

    /// As [`Ddp::step_parameters`], for the parameters and states of this group. The job ends with one line if the group has
    /// gradients.
    #[track_caller]
    pub fn step_parameters(&self, stream: Stream) {
        step_parameters(self.group, stream, site("step_parameters"));
    }

    /// What is annotated from here on belongs to this group.
    fn choose(&self, interface: &Interface, site: &'static Site) {
        static CHOSEN: AtomicI32 = AtomicI32::new(0); // the engine's first group
        if CHOSEN.swap(self.group.id(), Ordering::Relaxed) != self.group.id() {
            // SAFETY: the site is never freed.
            unsafe { (interface.gradient_group)(self.group.id(), site) }
        }
    }
}

pub(crate) fn step(group: Group, stream: Stream, site: &'static Site) {
    if let Some(interface) = get() {
        // SAFETY: the memory is annotated and owned; of the stream `Stream::from_raw` was promised.
        unsafe { (interface.step_group)(group.id(), stream.handle(), site) }
    }
}

pub(crate) fn step_parameters(group: Group, stream: Stream, site: &'static Site) {
    if let Some(interface) = get() {
        // SAFETY: the memory is annotated and owned; of the stream `Stream::from_raw` was promised.
        unsafe { (interface.step_parameters)(group.id(), stream.handle(), site) }
    }
}

/// Passes of a gradient accumulation, until it is dropped: [`Ddp::no_sync`].
#[must_use = "the passes end when the guard is dropped"]
pub struct NoSync<'a> {
    site: &'static Site,
    of: PhantomData<&'a mut Ddp>,
}

impl Drop for NoSync<'_> {
    fn drop(&mut self) {
        if let Some(interface) = get() {
            // SAFETY: the site is never freed.
            unsafe { (interface.no_sync)(0, self.site) }
        }
    }
}
