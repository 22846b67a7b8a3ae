//! Bytes to types and back; decides nothing.

mod admission;
mod approvals;
mod audit;
mod auth;
mod body;
mod cases;
mod drafts;
mod executions;
mod handoffs;
mod openapi;
pub mod problem;
mod proofs;
mod rates;
mod reads;
mod refusals;
mod revoke;
mod status;
mod stops;
mod token;
mod view;
mod wait;
mod webhooks;
mod well_known;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRef, MatchedPath, Request};
use axum::http::Method;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use approvals::RevokedView;
pub use audit::{AuditDesk, note_all_reads, note_reads};
pub(crate) use handoffs::{HandoffLine, HandoffView};
pub use openapi::document;
pub use problem::{Code, Problem};
pub use rates::{note_all_refusals, note_refusals};
pub use status::Probe;
pub(crate) use stops::{StopStandingView, StopView};
pub(crate) use view::{DraftView, ExecutionView};
pub use wait::{WAITERS, WAITERS_OF_A_CLIENT, Waiters};

use crate::broker::Broker;
use crate::domain::clock::{Clock, Entropy};
use crate::domain::id::RequestId;
use crate::edge::{Admission, Rates, ServerTls};
use crate::metrics::Requests;
use crate::proxy::Proxy;
use crate::store::Store;

/// The longest body that is read, in bytes; a draft document with its facts is the longest thing anybody sends.
pub const MAX_BODY: usize = 64 * 1024;

/// How many header fields a request may have; HTTP/1.1 with more is not even parsed, HTTP/2 knows no such limit of its own.
const MAX_FIELDS: usize = 100;

/// What every handler needs.
#[derive(Clone)]
pub struct Common(Arc<CommonParts>);

/// The parts of [`Common`].
pub struct CommonParts {
    /// Where state is kept.
    pub store: Arc<dyn Store>,
    /// Now.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
    /// The URL under which the broker is reached.
    pub public_url: String,
    /// The certificate that is served with, if there is one.
    pub tls: Option<Arc<ServerTls>>,
    /// How often each caller may call.
    pub rates: Arc<Rates>,
    /// How many calls that change something are worked on at once.
    pub admission: Arc<Admission>,
    /// Whether the store commits, asked now and then.
    pub probe: Arc<Probe>,
    /// Places for calls that wait for a change.
    pub waiters: Waiters,
    /// What the calls about the log share.
    pub audit: Arc<AuditDesk>,
    /// Counts what is answered.
    pub requests: Arc<Requests>,
}

impl Common {
    /// Shares these parts between handlers.
    #[must_use]
    pub fn new(parts: CommonParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl std::ops::Deref for Common {
    type Target = CommonParts;
    fn deref(&self) -> &CommonParts {
        &self.0
    }
}

/// The state of the broker's routes.
#[derive(Clone)]
pub(crate) struct BrokerState {
    common: Common,
    broker: Arc<Broker>,
}

impl FromRef<BrokerState> for Common {
    fn from_ref(state: &BrokerState) -> Self {
        state.common.clone()
    }
}

/// The state of the proxy's routes.
#[derive(Clone)]
pub(crate) struct ProxyState {
    common: Common,
    proxy: Proxy,
}

impl FromRef<ProxyState> for Common {
    fn from_ref(state: &ProxyState) -> Self {
        state.common.clone()
    }
}

/// The broker's routes and what documents them.
fn broker_routes() -> OpenApiRouter<BrokerState> {
    OpenApiRouter::new()
        .routes(routes!(drafts::propose, drafts::list))
        .routes(routes!(drafts::show))
        .routes(routes!(drafts::bytes))
        .routes(routes!(drafts::withdraw))
        .routes(routes!(approvals::accept))
        .routes(routes!(approvals::revoke))
        .routes(routes!(token::exchange))
        .routes(routes!(revoke::revoke))
        .routes(routes!(revoke::introspect))
        .routes(routes!(stops::place, stops::list))
        .routes(routes!(stops::show))
        .routes(routes!(stops::resume))
        .routes(routes!(cases::show))
        .routes(routes!(audit::events::list))
        .routes(routes!(audit::stream::stream))
        .routes(routes!(audit::tree::checkpoint))
        .routes(routes!(audit::tree::consistency))
        .routes(routes!(audit::tree::proof))
        .routes(routes!(audit::tree::tile))
        // The longer paths of tiles; no description of a path can say that it has any number of parts.
        .route("/v1/audit/tile/{level}/{index}/{*rest}", get(audit::tree::tile))
        .routes(routes!(proofs::report))
        .routes(routes!(well_known::authorization_server))
        .routes(routes!(well_known::biscuit_web_keys))
}

/// The proxy's routes and what documents them.
fn proxy_routes() -> OpenApiRouter<ProxyState> {
    OpenApiRouter::new()
        .routes(routes!(executions::execute))
        .routes(routes!(executions::show))
        .routes(routes!(executions::resolve))
        .routes(routes!(handoffs::list))
        .routes(routes!(handoffs::show))
        .routes(routes!(reads::read))
        .routes(routes!(webhooks::take))
}

/// The routes that every process has.
fn common_routes() -> OpenApiRouter<Common> {
    OpenApiRouter::new()
        .routes(routes!(status::healthz))
        .routes(routes!(status::readyz))
        .routes(routes!(openapi::serve))
}

/// The routes of a process that is the broker, the proxy, or both.
pub fn router(common: Common, broker: Option<Arc<Broker>>, proxy: Option<Proxy>) -> Router {
    let ready = status::Checked {
        common: common.clone(),
        broker: broker.clone(),
        proxy: proxy.clone(),
    };
    let mut router = Router::new();
    if let Some(broker) = broker {
        let (routes, _) = broker_routes().split_for_parts();
        router = router.merge(routes.with_state(BrokerState {
            common: common.clone(),
            broker,
        }));
    }
    if let Some(proxy) = proxy {
        let (routes, _) = proxy_routes().split_for_parts();
        router = router.merge(routes.with_state(ProxyState {
            common: common.clone(),
            proxy,
        }));
    }
    let (routes, _) = common_routes().split_for_parts();
    router
        .merge(routes.with_state(common.clone()))
        .layer(axum::Extension(ready))
        .fallback(|| async { Problem::new(Code::NotFound, "there is no such path; see /openapi.json") })
        .method_not_allowed_fallback(|| async { Problem::new(Code::MethodNotAllowed, "this path takes another method; see /openapi.json") })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(common, identify))
}

/// Gives the request an id, says it back, and writes one line about how it ended. Of what the caller wrote it holds nothing: the path's pattern stands for the
/// path.
async fn identify(axum::extract::State(common): axum::extract::State<Common>, mut request: Request, next: Next) -> Response {
    let id = RequestId::generate(&*common.clock, &*common.entropy);
    request.extensions_mut().insert(id);
    let method = request.method().clone();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("none", MatchedPath::as_str)
        .to_owned();
    let started = common.clock.now();
    let span = tracing::info_span!("request", request.id = %id);
    let mut response = if request.headers().len() > MAX_FIELDS {
        Problem::new(Code::HeadTooLarge, format!("the request has more than {MAX_FIELDS} header fields")).into_response()
    } else {
        tracing::Instrument::instrument(next.run(request), span).await
    };
    let took = common.clock.now().since(started);
    common
        .requests
        .answered(known_method(&method), &route, response.status().as_u16(), took);
    tracing::info!(request.id = %id, method = known_method(&method), route, status = response.status().as_u16(), took_ms = took.as_millis(), "answered a request");
    if let Ok(value) = id.to_string().parse() {
        response.headers_mut().insert("x-request-id", value);
    }
    response
}

/// The method, if it is one that exists: a label holds nothing that a caller made up.
fn known_method(method: &Method) -> &str {
    match *method {
        Method::GET | Method::HEAD | Method::POST | Method::PUT | Method::PATCH | Method::DELETE | Method::OPTIONS => method.as_str(),
        _ => "other",
    }
}

fn panicked(cause: Box<dyn std::any::Any + Send>) -> Response {
    let words = cause
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| cause.downcast_ref::<String>().cloned());
    tracing::error!(cause = words.as_deref().unwrap_or("unknown"), "a handler panicked");
    Problem::new(
        Code::Internal,
        "something went wrong; the request id in the X-Request-Id header finds it in the log",
    )
    .into_response()
}
