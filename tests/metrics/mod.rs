//! What `/metrics` says, and that the alarms and the dashboard ask for what it says.

mod alarms;
mod counts;

use axum::body::Body;
use axum::http::Request;

use crate::support::world::{World, send};

/// The text of a scrape.
pub async fn scrape(world: &World) -> String {
    let reply = send(&world.app.metrics_router(), Request::get("/metrics").body(Body::empty()).unwrap()).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    reply.body.as_str().unwrap().to_owned()
}

/// The value of the sample with these words before it; `None` if there is no such line.
pub fn sample(text: &str, named: &str) -> Option<f64> {
    let line = text
        .lines()
        .find(|line| line.strip_prefix(named).is_some_and(|rest| rest.starts_with(' ')))?;
    line.rsplit(' ').next()?.parse().ok()
}
