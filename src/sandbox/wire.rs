//! An answer as bytes: whole, cut in the middle, or never.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body, Frame};

use super::answer::Answer;

/// The connection is closed without an answer: what a service returns to make it so.
#[derive(Debug, thiserror::Error)]
#[error("the connection was closed by a scripted fault")]
pub(super) struct Dropped;

/// The answer, ready to be written.
pub(super) fn wire(answer: &Answer, request_id: &str) -> Response<WireBody> {
    let bytes = Bytes::from(answer.body.to_string());
    let mut builder = Response::builder()
        .status(answer.status)
        .header("content-type", "application/json")
        .header("content-length", bytes.len())
        .header("request-id", request_id);
    for (name, value) in &answer.headers {
        builder = builder.header(*name, value);
    }
    // Cannot fail: every header value is written in this module or is an id made here.
    builder
        .body(WireBody::whole(bytes))
        .unwrap_or_else(|_| Response::new(WireBody::whole(Bytes::new())))
}

/// A body in one piece, or the first half of one and then the end of the connection.
pub(super) struct WireBody {
    bytes: Option<Bytes>,
    ending: Ending,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Whole,
    Cut,
    /// The first half must leave the buffer before the connection goes, so the end comes one turn later.
    CutNow,
}

impl WireBody {
    const fn whole(bytes: Bytes) -> Self {
        Self {
            bytes: Some(bytes),
            ending: Ending::Whole,
        }
    }

    /// The same answer, its promised length included, with only half of the body behind it.
    pub(super) fn cut(self) -> Self {
        let bytes = self.bytes.map(|bytes| bytes.slice(..bytes.len() / 2));
        Self {
            bytes,
            ending: Ending::Cut,
        }
    }
}

impl Body for WireBody {
    type Data = Bytes;
    type Error = Dropped;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Dropped>>> {
        if let Some(bytes) = self.bytes.take() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        match self.ending {
            Ending::Whole => Poll::Ready(None),
            Ending::Cut => {
                self.ending = Ending::CutNow;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Ending::CutNow => Poll::Ready(Some(Err(Dropped))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none() && self.ending == Ending::Whole
    }
}
