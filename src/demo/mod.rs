//! The damaged-blender run, played against everything in one process.
//!
//! Nothing is faked: writ answers on a loopback port and is called over HTTP, the backend is the sandbox's HTTP server, keys and secrets are
//! generated, and every check compares what came over the wire or what the backend saw.

mod checks;
mod page;
mod people;
mod serve;
mod stage;
mod story;

use std::io::{self, Write};
use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

pub use checks::{Check, Summary};

use crate::app::Outside;
use page::Page;
use stage::Stage;
use story::Script;

/// How the story is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Plain text, for pipes and files.
    Plain,
    /// Colours and box drawings.
    Terminal,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The story, the table, what the auditor sees.
    Story(Look),
    /// The checks only, as one JSON object.
    Json,
}

/// What happens after the story.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Afterwards {
    /// Everything stops.
    Stop,
    /// The servers stay up until `stop` is cancelled, and how to call them is printed.
    Serve,
}

/// How the run is played.
pub struct DemoOptions {
    /// The machine's clock and randomness.
    pub outside: Outside,
    /// Where the run makes its own directory, such as the system's directory for temporary files.
    pub parent: PathBuf,
    /// What is written.
    pub output: Output,
    /// What happens after the story.
    pub afterwards: Afterwards,
    /// Ends the run early, or the serving after it.
    pub stop: CancellationToken,
}

/// Why the run has no result.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Something could not be started.
    #[error("the demo could not be set up: {0}")]
    Setup(String),
    /// A call got no answer.
    #[error("a call over HTTP got no answer: {0}")]
    Http(String),
    /// An answer with which the story cannot go on.
    #[error("the story cannot go on after this answer: {0}")]
    Unexpected(String),
    /// The output is closed or full.
    #[error("the story could not be written")]
    Output(#[from] io::Error),
    /// It was told to stop.
    #[error("the demo was interrupted; everything it had started has been stopped and removed")]
    Interrupted,
}

/// Plays the run and writes it to `out`. Whatever happens, the run's directory is gone afterwards.
///
/// # Errors
/// [`DemoError::Setup`], [`DemoError::Output`], [`DemoError::Interrupted`]. A story that goes wrong half way is not an error: it is a failed check.
pub async fn run(options: DemoOptions, out: &mut dyn Write) -> Result<Summary, DemoError> {
    let stage = Stage::start(options.outside.clone(), options.parent.clone()).await?;
    let stop = options.stop.clone();
    let played = tokio::select! {
        // In this order: the same signal that ends the serving must not undo a story that has been told.
        biased;
        played = play(&stage, &options, out) => played,
        () = stop.cancelled() => Err(DemoError::Interrupted),
    };
    stage.strike().await;
    played
}

async fn play(stage: &Stage, options: &DemoOptions, out: &mut dyn Write) -> Result<Summary, DemoError> {
    let (look, mut nowhere) = match options.output {
        Output::Story(look) => (look, io::sink()),
        Output::Json => (Look::Plain, io::sink()),
    };
    let paper: &mut dyn Write = match options.output {
        Output::Story(_) => &mut *out,
        Output::Json => &mut nowhere,
    };
    let mut script = Script::new(stage, Page::new(paper, look));
    let told = story::tell(&mut script).await;
    if let Err(error) = &told {
        script.check("the story is told to its end", "the end", error);
    }
    let audit = story::audit(&mut script).await;
    if let Err(error) = &audit {
        script.check("the audit log is read to its end", "the end", error);
    }
    let (mut page, summary) = script.close();
    if let Output::Story(_) = options.output {
        page.flush();
    }
    let paper = page.finish()?;
    match options.output {
        Output::Story(look) => {
            writeln!(paper)?;
            summary.table(look, paper)?;
            if let Ok(lines) = &audit {
                writeln!(paper)?;
                for line in lines {
                    writeln!(paper, "{line}")?;
                }
            }
            writeln!(paper)?;
            writeln!(paper, "{}", summary.line())?;
            paper.flush()?;
        }
        Output::Json => {
            let document = serde_json::json!({ "checks": summary.checks, "total": summary.checks.len(), "failed": summary.failed() });
            writeln!(out, "{document:#}")?;
            out.flush()?;
        }
    }
    if options.afterwards == Afterwards::Serve {
        // Where the checks go to a program, how to go on is still for people.
        serve::invite(stage, look, out).await?;
        options.stop.cancelled().await;
    }
    Ok(summary)
}
