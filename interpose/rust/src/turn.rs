//! Turns: ranks compute whole batches one after the other, and N batches make one update.

use crate::ddp::{any, mean, step, step_parameters, Ddp, Group};
use crate::interface::{get, site, Site};
use crate::memory::Scalar;
use crate::stream::Stream;
use std::marker::PhantomData;

/// A region in which ranks take turns, before its step. [`Ddp::turn`] begins it.
///
/// N batches are a round: rank 0 computes the first, rank 1 the second. All ranks run all host code, and load each batch.
///
/// ```
/// # struct Net; impl Net { fn load(&self, _: usize) {} fn forward_and_backward(&self) {} fn update(&self) {} }
/// # let (net, mut ddp, batches, stream) = (Net, ddprun::Ddp::take(), 0..3, ddprun::Stream::DEFAULT);
/// # let mut updates = 0;
/// for batch in batches {
///     net.load(batch);
///     let turn = ddp.turn(); // before the first kernel, memset or library call of the batch
///     net.forward_and_backward(); // on the device for the rank whose turn it is; the others leave it out
///     let update = turn.step(stream); // averages at the round's last batch
///     net.update(); // on the device once a round, on all ranks
///     if update.updates() {
///         updates += 1; // what the host counts in an update
///     }
/// } // `update` is dropped: the region ends
/// ```
///
/// **The one rule**: until the region ends the host may launch, copy and count. It may not decide, nor keep, anything that
/// this batch's device work has computed, unless [`mine`](Turn::mine) is true. In the turn of another rank launches, library
/// calls, memsets and copies from device to device are left out and report success; copies from and to the host always run.
/// The batch is N times as large as that of one process: choose another learning rate. The first batch is a round by itself:
/// all ranks compute it, so that the update can make its state.
///
/// The region belongs to its thread; the guard cannot be sent to another. The borrow of the [`Ddp`] makes these misuses
/// errors of the compiler: a region in a region, [`Ddp::step`] or [`Ddp::mean`] in place of the region's own, and a second
/// step, because [`step`](Turn::step) takes the guard. A region that is dropped without a step is a pass of its batch, and the next region of
/// the same line another. [`shard`](crate::shard) and [`Ddp::weight`] end the job in a program that has turns.
///
/// Each group of gradients has a line with [`Ddp::turn`] of its own.
#[must_use = "the region ends when the guard is dropped"]
pub struct Turn<'a> {
    region: Region<'a>,
}

/// The rest of a region after its step: the update. [`Turn::step`] makes it; the region ends when it is dropped.
#[must_use = "the region ends when the guard is dropped: `let update = turn.step(stream);`, and the update after it"]
pub struct Update<'a> {
    region: Region<'a>,
}

struct Region<'a> {
    number: u64, // 0: there is none
    site: &'static Site,
    of: PhantomData<&'a mut Ddp>,
}

impl<'a> Turn<'a> {
    pub(crate) fn begin(site: &'static Site) -> Turn<'a> {
        // SAFETY: the site is never freed.
        let number = get().map_or(0, |interface| unsafe { (interface.turn_begin)(site) });
        Turn { region: Region { number, site, of: PhantomData } }
    }

    /// Whether this rank computes the batch. True without ddprun. `DDP_TURN_MINE`.
    pub fn mine(&self) -> bool {
        mine()
    }

    /// Whether the update of this region is made: the batch is the last of its round. True without ddprun.
    /// `DDP_TURN_UPDATES`.
    pub fn updates(&self) -> bool {
        updates()
    }

    /// The step of the batch: gradients hold the mean over the round's batches at its last one. At the others it has no effect,
    /// and the device's work of the update is left out on all ranks. `DDP_STEP` in a region.
    #[track_caller]
    pub fn step(self, stream: Stream) -> Update<'a> {
        step(Group::DEFAULT, stream, site("step"));
        Update { region: self.region }
    }

    /// As [`step`](Turn::step), for the gradients of a group.
    #[track_caller]
    pub fn step_group(self, group: Group, stream: Stream) -> Update<'a> {
        step(group, stream, site("step_group"));
        Update { region: self.region }
    }

    /// The step of a program that updates inside backward: the parameters are averaged. `DDP_STEP_PARAMETERS` in a region.
    #[track_caller]
    pub fn step_parameters(self, group: Group, stream: Stream) -> Update<'a> {
        step_parameters(group, stream, site("step_parameters"));
        Update { region: self.region }
    }
}

impl Update<'_> {
    /// As [`Turn::mine`].
    pub fn mine(&self) -> bool {
        mine()
    }

    /// As [`Turn::updates`]: for what the host does in an update, `if update.updates() { adam_steps += 1; }`.
    pub fn updates(&self) -> bool {
        updates()
    }

    /// As [`Ddp::mean`], in the region: under [`updates`](Update::updates), or in each batch ranks wait for each other.
    #[track_caller]
    pub fn mean<T: Scalar>(&self, value: T) -> T {
        mean(None, value, site("mean"))
    }

    /// As [`Ddp::mean_as`], in the region.
    #[track_caller]
    pub fn mean_as<T: Scalar>(&self, label: &str, value: T) -> T {
        mean(Some(label), value, site("mean_as"))
    }

    /// As [`Ddp::any`], in the region.
    #[track_caller]
    pub fn any(&self, flag: bool) -> bool {
        any(flag, site("any"))
    }

    /// The region ends here; as `drop`.
    pub fn end(self) {
        drop(self.region);
    }
}

fn mine() -> bool {
    // SAFETY: the function has no arguments.
    get().map_or(true, |interface| unsafe { (interface.turn_mine)() } != 0)
}

fn updates() -> bool {
    // SAFETY: the function has no arguments.
    get().map_or(true, |interface| unsafe { (interface.turn_updates)() } != 0)
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        if self.number == 0 {
            return;
        }
        if let Some(interface) = get() {
            // SAFETY: the site is never freed, and the region is this thread's.
            unsafe { (interface.turn_end)(self.number, self.site) }
        }
    }
}
