//! Which thread trains: the one that holds the [`Ddp`](crate::Ddp) and the annotations.
//!
//! ddprun writes annotated memory during calls of the `Ddp`. In one thread these calls and the program's own accesses to
//! host memory follow each other; in two they would be a data race.

use crate::interface::{get, lock};
use std::cell::Cell;
use std::sync::Mutex;
use std::thread::{current, ThreadId};

/// The thread of a job's rank, and how many values of it live. Without ddprun each thread trains by itself.
static OWNER: Mutex<Option<(ThreadId, usize)>> = Mutex::new(None);

thread_local! {
    static TAKEN: Cell<bool> = Cell::new(false);
}

/// A value that stays in its thread: the `Ddp`, or an annotation.
pub(crate) struct Holder;

impl Holder {
    /// `None` if another thread trains.
    pub(crate) fn new() -> Option<Holder> {
        if get().is_none() {
            return Some(Holder);
        }
        let mut owner = lock(&OWNER);
        let (thread, holders) = owner.get_or_insert_with(|| (current().id(), 0));
        if *thread != current().id() {
            return None;
        }
        *holders += 1;
        Some(Holder)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let mut owner = lock(&OWNER);
        if let Some((thread, holders)) = owner.take() {
            *owner = if holders > 1 { Some((thread, holders - 1)) } else { None };
        }
    }
}

/// Whether the calling thread had no `Ddp`; it has one now.
pub(crate) fn take() -> bool {
    TAKEN.with(|taken| !taken.replace(true))
}

/// The calling thread's `Ddp` is gone.
pub(crate) fn give_back() {
    let _ = TAKEN.try_with(|taken| taken.set(false)); // at the end of a thread there may be none to set
}
