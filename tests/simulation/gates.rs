//! Where a schedule holds whatever runs: before each effect and before each answer, a task waits here until it is let through, or for ever if its
//! process has died.

use std::sync::Mutex;

use tokio::sync::oneshot;

use super::chance::Motion;

/// What a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A read of the store.
    Read(&'static str),
    /// A transition.
    Write(&'static str),
    /// The answer to a transition that took place or did not.
    Answer(&'static str),
    /// A look at the backend.
    Get,
    /// A request that changes something at the backend.
    Post,
    /// The backend's answer.
    Reply,
}

/// How a task is let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// It goes on.
    Through,
    /// The store does not do it and says so.
    Unavailable,
    /// The store does not do it and does not say so.
    LostBefore,
    /// The store does it and does not say so.
    LostAfter,
    /// It takes place, and the answer waits again.
    Slow,
    /// It takes place, and the process is dead before the answer.
    DeadAfter,
    /// What the backend does with the request.
    Backend(super::bank::Treat),
}

/// One task that waits.
pub struct Waiting {
    pub worker: usize,
    pub at: Place,
    pass: oneshot::Sender<Pass>,
}

/// Everything that waits, and which processes live.
#[derive(Default)]
pub struct Gates {
    waiting: Mutex<Vec<Waiting>>,
    lives: Mutex<Vec<u64>>,
    pub motion: Motion,
}

impl Gates {
    pub fn new(workers: usize) -> Self {
        Self {
            lives: Mutex::new(vec![0; workers]),
            ..Self::default()
        }
    }

    /// Which life of this worker is the current one.
    pub fn life(&self, worker: usize) -> u64 {
        self.lives.lock().unwrap()[worker]
    }

    /// Waits to be let through; for ever, if this life is over.
    pub async fn arrive(&self, worker: usize, life: u64, at: Place) -> Pass {
        if self.life(worker) != life {
            return std::future::pending().await;
        }
        let (pass, passed) = oneshot::channel();
        self.waiting.lock().unwrap().push(Waiting { worker, at, pass });
        self.motion.moved();
        match passed.await {
            Ok(pass) => pass,
            Err(_) => std::future::pending().await,
        }
    }

    /// Ends a worker's life: nothing of it is ever let through again.
    pub fn kill(&self, worker: usize) {
        self.lives.lock().unwrap()[worker] += 1;
        self.waiting.lock().unwrap().retain(|waiting| waiting.worker != worker);
    }

    /// What waits, oldest first. What nobody waits for any more is forgotten.
    pub fn waiting(&self) -> Vec<(usize, Place)> {
        let mut waiting = self.waiting.lock().unwrap();
        waiting.retain(|w| !w.pass.is_closed());
        waiting.iter().map(|w| (w.worker, w.at)).collect()
    }

    /// Takes one out of the line.
    pub fn take(&self, index: usize) -> Waiting {
        self.waiting.lock().unwrap().remove(index)
    }
}

impl Waiting {
    pub fn let_through(self, pass: Pass) {
        // Whoever waited may have gone away meanwhile.
        let _ = self.pass.send(pass);
    }
}
