//! The requests of one connection: open from their head until their answer has been taken.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::edge::{Busy, Seat};

/// How much of one answer is handed on ahead of what its client takes, in bytes.
pub(super) const ANSWERED_AHEAD: usize = 16 * 1024;

/// The requests of one connection that are being worked on.
#[derive(Clone)]
pub(super) struct Requests {
    counts: watch::Sender<Count>,
    /// When the connection began.
    pub(super) begun: Instant,
}

#[derive(Clone, Copy)]
struct Count {
    open: usize,
    /// When it changed last.
    since: Instant,
}

impl Requests {
    pub(super) fn new() -> Self {
        let since = Instant::now();
        Self {
            counts: watch::Sender::new(Count { open: 0, since }),
            begun: since,
        }
    }

    fn change(&self, change: impl FnOnce(usize) -> usize) {
        self.counts.send_modify(|count| {
            *count = Count {
                open: change(count.open),
                since: Instant::now(),
            };
        });
    }

    /// Begins a request.
    pub(super) fn begin(&self, seat: &Seat) -> Open {
        self.change(|open| open + 1);
        Open {
            requests: self.clone(),
            busy: seat.begin(),
        }
    }

    /// Returns once no request has been open for this long, which begins at `from` at the earliest.
    pub(super) async fn none_for(&self, patience: Duration, from: Instant) {
        let mut counts = self.counts.subscribe();
        loop {
            let count = *counts.borrow_and_update();
            let silence = async {
                if count.open > 0 {
                    std::future::pending().await
                } else {
                    tokio::time::sleep_until(count.since.max(from) + patience).await;
                }
            };
            tokio::select! {
                () = silence => return,
                // The sender is `self`, so it is there.
                _ = counts.changed() => {}
            }
        }
    }
}

/// A request that is open until this is dropped.
pub(super) struct Open {
    requests: Requests,
    busy: Busy,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.requests.change(|open| open.saturating_sub(1));
    }
}

/// An answer that is handed on in pieces, as its client takes them. Its request is open until the last one.
pub(super) struct Answer {
    body: Body,
    rest: Bytes,
    open: Option<Open>,
}

impl Answer {
    /// This body, for as long as it is not taken held against its connection.
    pub(super) fn new(body: Body, mut open: Open) -> Self {
        let size = body.size_hint().lower();
        open.busy.answers(usize::try_from(size).unwrap_or(usize::MAX));
        let rest = Bytes::new();
        Self {
            body,
            rest,
            open: Some(open),
        }
    }

    fn piece(&mut self) -> Frame<Bytes> {
        Frame::data(self.rest.split_to(self.rest.len().min(ANSWERED_AHEAD)))
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.piece())));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(match frame.map(|frame| frame.map(Frame::into_data)) {
            None => {
                self.open = None;
                None
            }
            Some(Ok(Ok(data))) => {
                self.rest = data;
                Some(Ok(self.piece()))
            }
            Some(Ok(Err(other))) => Some(Ok(other)),
            Some(Err(error)) => Some(Err(error)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}
