//! `writ serve`: the broker, the proxy, or both, until it is told to stop.

use std::io::IsTerminal as _;

use clap::{Args, ValueEnum};
use serde_json::json;
use tokio::net::TcpListener;

use super::context::{At, Context};
use super::error::CliError;
use super::output::colour;
use super::signal;
use crate::app::{self, App, Part};
use crate::config::{self, Config, LogFormat};

/// Run the broker and the proxy.
///
/// SIGTERM and SIGINT let what has begun come to its end; a second one ends at once. SIGHUP has the key and certificate files read again at
/// once; without it they are looked at every five seconds.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ serve --config work/writ.toml\n  writ serve --config work/writ.toml --role broker\n  writ serve --config work/writ.toml --role proxy"
)]
pub(super) struct Serve {
    #[command(flatten)]
    at: At,
    /// Which part this process is.
    #[arg(long, value_enum, default_value_t = RoleArg::All)]
    role: RoleArg,
}

/// The part of writ that a process is.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum RoleArg {
    /// The broker and the proxy at the broker's address.
    All,
    /// The broker: signing keys, and secrets that read facts.
    Broker,
    /// The proxy: public keys, and secrets that execute.
    Proxy,
}

impl RoleArg {
    pub(super) const fn part(self) -> Part {
        match self {
            Self::All => Part::All,
            Self::Broker => Part::Broker,
            Self::Proxy => Part::Proxy,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::All => "broker and proxy",
            Self::Broker => "broker",
            Self::Proxy => "proxy",
        }
    }
}

impl Serve {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let config = self.at.load()?;
        log_to_stderr(&config)?;
        if let Some(wrong) = app::too_few_files(&config) {
            return Err(CliError::failed(wrong));
        }
        let stop = signal::stop()?;
        let mut app = App::assemble(&config, self.role.part(), context.outside.clone(), &config::environment)?;
        signal::reload(app.reload())?;
        let asked = app.address();
        let cannot = |error: std::io::Error| CliError::cannot_listen(asked, &error, "change `listen` in the configuration");
        let listener = TcpListener::bind(asked).await.map_err(cannot)?;
        let scheme = if app.tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().map_err(cannot)?);
        let words = self.role.words();
        let mut metrics = None;
        if let Some(address) = app.metrics_address() {
            let cannot = |error: std::io::Error| {
                let at = format!("{address} for metrics");
                CliError::cannot_listen(at, &error, "change `metrics_listen` in the configuration")
            };
            let listener = TcpListener::bind(address).await.map_err(cannot)?;
            metrics = Some(format!("http://{}/metrics", listener.local_addr().map_err(cannot)?));
            app = app.telling_at(listener);
        }
        let told = metrics.as_ref().map_or_else(String::new, |at| format!(", metrics at {at}"));
        let said = context
            .out
            .answer_line(&json!({ "url": url, "role": words, "metrics": metrics }), |_| {
                format!("listening on {url} ({words}){told}")
            });
        match said {
            // A server goes on when nobody reads its first line.
            Ok(()) | Err(CliError::Closed) => {}
            Err(error) => return Err(error),
        }
        if config.head_lines {
            app = app.printing_heads(std::io::stdout());
        }
        app.serve(listener, stop)
            .await
            .map_err(|error| CliError::failed(format!("{url}: {error}")))
    }
}

fn log_to_stderr(config: &Config) -> Result<(), CliError> {
    let filter = tracing_subscriber::EnvFilter::try_new(&config.log_filter).map_err(CliError::failed)?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour(std::io::stderr().is_terminal()));
    let set = match config.log_format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().try_init(),
    };
    set.map_err(|error| CliError::failed(format!("the log cannot be set up: {error}")))
}
