//! Answered HTTP requests, counted as they are answered.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds in seconds. A call that waits for a change may take half a minute, and that is no fault.
const BOUNDS: [f64; 9] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: String,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    method: String,
    route: String,
}

/// The counts of a process.
#[derive(Debug)]
pub struct Requests {
    registry: Registry,
    answered: Family<Answered, Counter>,
    took: Family<Route, Histogram, fn() -> Histogram>,
}

impl Default for Requests {
    fn default() -> Self {
        let answered = Family::default();
        let took = Family::new_with_constructor((|| Histogram::new(BOUNDS)) as fn() -> Histogram);
        let mut registry = Registry::default();
        registry.register(
            "writ_http_requests",
            "Answered HTTP requests, by method, route and status",
            answered.clone(),
        );
        registry.register("writ_http_request_seconds", "How long answers took, waiting included", took.clone());
        Self { registry, answered, took }
    }
}

impl Requests {
    /// A request was answered. `route` is the pattern that matched, such as `/v1/drafts/{id}`, and `none` if nothing did.
    pub fn answered(&self, method: &str, route: &str, status: u16, took: Duration) {
        let (method, route) = (method.to_owned(), route.to_owned());
        self.answered
            .get_or_create(&Answered {
                method: method.clone(),
                route: route.clone(),
                status,
            })
            .inc();
        self.took.get_or_create(&Route { method, route }).observe(took.as_secs_f64());
    }

    pub(super) const fn registry(&self) -> &Registry {
        &self.registry
    }
}
