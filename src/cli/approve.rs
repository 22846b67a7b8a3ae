//! `writ approve` and `writ deny`: sign a record over a draft's hash, and hand it in.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::context::{At, Context, load, open};
use super::describe::{self, Decimals};
use super::draft;
use super::error::CliError;
use crate::app::{self, App, Part};
use crate::approval::{Card, RecordSigner, Signatory};
use crate::broker::Caller;
use crate::config::{self, Config};
use crate::domain::approval::Decision;
use crate::domain::draft::{DraftDocument, IdempotencyKey};
use crate::domain::id::{DraftId, RecordId, RequestId};
use crate::domain::name::{Audience, ClientId, KeyId, PrincipalId};
use crate::domain::principal::{ApproverKey, Client, Role};
use crate::http::DraftView;
use crate::setup;
use crate::store::Store;

/// Sign an approval of a draft, and hand it in.
///
/// With a working directory the card comes from its store and the record goes in as an approval service would hand it in. With `--card` nothing
/// but the key and the card is needed, and the record is printed.
///
/// It cannot give a fresh sign-in: a draft that asks for one (step-up) can only be approved through an approval service that has people sign in.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ approve drf_0192f0c1a2b37c4d8e5f60718293a4b5 --key mia.pem --reason 'the photo shows the crack'\n  writ approve --card card.json --bytes draft.json --key mia.pem --kid usr_mia-1 --approver usr_mia --audience http://127.0.0.1:8700 --reason 'the photo shows the crack'"
)]
pub(super) struct Approve {
    #[command(flatten)]
    answer: Answer,
}

/// Sign a denial of a draft, and hand it in. The orchestrator reads exactly the reason.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  writ deny drf_0192f0c1a2b37c4d8e5f60718293a4b5 --key mia.pem --reason 'refund the item, not the delivery'\n  writ deny --card - --key mia.pem --kid usr_mia-1 --approver usr_mia --audience http://127.0.0.1:8700 --reason 'no photo' < card.json"
)]
pub(super) struct Deny {
    #[command(flatten)]
    answer: Answer,
}

#[derive(Args)]
struct Answer {
    /// The draft.
    #[arg(required_unless_present = "card")]
    draft: Option<DraftId>,
    /// The file with the approver's private key.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Why. The orchestrator reads it on a denial; at most 1,000 characters.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The approval service in whose name the record is handed in; the only one that is not a prover's if not given.
    #[arg(long = "as", value_name = "CLIENT", conflicts_with = "card")]
    service: Option<ClientId>,
    /// Print the record and hand nothing in.
    #[arg(long)]
    print: bool,
    /// The key's id; the registered key that fits the private one if not given.
    #[arg(long, value_name = "KID")]
    kid: Option<KeyId>,
    /// Sign without a store: the answer of `GET /v1/drafts/{id}` as the approval service got it, `-` for standard input.
    #[arg(long, value_name = "FILE", requires = "kid", requires = "approver", requires = "audience")]
    card: Option<PathBuf>,
    /// With --card: the answer of `GET /v1/drafts/{id}/bytes`, which must hash to the card's hash.
    #[arg(long, value_name = "FILE", requires = "card")]
    bytes: Option<PathBuf>,
    /// With --card: the approver the key belongs to.
    #[arg(long, value_name = "APPROVER", requires = "card")]
    approver: Option<PrincipalId>,
    /// With --card: the issuer the key is registered for.
    #[arg(long, value_name = "TEXT", requires = "card", default_value = setup::LOCAL_ISSUER)]
    issuer: String,
    /// With --card: the broker's own name.
    #[arg(long, value_name = "URL", requires = "card")]
    audience: Option<Audience>,
    #[command(flatten)]
    at: At,
}

impl Approve {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        self.answer.run(context, Decision::Approve).await
    }
}

impl Deny {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        self.answer.run(context, Decision::Deny).await
    }
}

/// What is signed: the card, what it is about in words, and in whose name.
struct Signing {
    card: Card,
    about: String,
    by: Signatory,
    signer: RecordSigner,
}

impl Answer {
    async fn run(self, context: &Context, decision: Decision) -> Result<(), CliError> {
        let pem = app::read_private(&self.key).map_err(CliError::failed)?;
        let with = |kid: KeyId| {
            RecordSigner::from_pkcs8_pem(&pem, kid).map_err(|error| CliError::failed(format!("{}: {error}", self.key.display())))
        };
        if self.card.is_some() {
            let signing = self.offline(context, &with)?;
            let record = self.sign(context, decision, &signing)?;
            return print(context, &signing.about, &record);
        }
        let Some(draft) = self.draft else {
            return Err(CliError::usage("name a draft, or a card with --card"));
        };
        let config = load(&self.at.config)?;
        if self.print {
            let store = open(&config, context)?;
            let service = self.service(&*store).await?;
            let signing = self.online(context, &config, &*store, &service, draft, &with).await?;
            let record = self.sign(context, decision, &signing)?;
            return print(context, &signing.about, &record);
        }
        app::find_store(&config).map_err(CliError::failed)?;
        let app = App::assemble(&config, Part::Broker, context.outside.clone(), &config::environment)?;
        let Some(broker) = &app.broker else {
            return Err(CliError::failed("no broker could be put together"));
        };
        let service = self.service(&*app.store).await?;
        let signing = self.online(context, &config, &*app.store, &service, draft, &with).await?;
        let record = self.sign(context, decision, &signing)?;
        let caller = Caller {
            client: service,
            request: RequestId::generate(&*context.outside.clock, &*context.outside.entropy),
        };
        let accepted = broker.accept(&caller, &record).await.map_err(CliError::failed)?;
        let view = DraftView::of(&accepted.draft, &caller.client);
        let value = json!({ "approver": accepted.approver, "decision": accepted.decision, "draft": view });
        context.out.answer(&value, |out| {
            let said = match accepted.decision {
                Decision::Approve => "approved",
                Decision::Deny => "denied",
            };
            let standing = describe::standing(out, &accepted.draft);
            let state = accepted.draft.state;
            format!(
                "{}\n{said} by {}; the draft is {state}\n{standing}",
                signing.about, accepted.approver
            )
        })
    }

    /// The registered service that hands the record in.
    async fn service(&self, store: &dyn Store) -> Result<Client, CliError> {
        let clients = store.clients().await.map_err(CliError::failed)?;
        let mut services: Vec<Client> = clients
            .into_iter()
            .map(|entry| entry.client)
            .filter(|client| client.revoked_at.is_none() && client.has_role(Role::ApprovalService))
            .collect();
        match &self.service {
            Some(named) => services.retain(|client| client.id == *named),
            // A prover's desk is for its tries.
            None => services.retain(|client| !client.has_role(Role::Prover)),
        }
        match (services.pop(), services.is_empty(), &self.service) {
            (Some(service), true, _) => Ok(service),
            (Some(_), false, _) => Err(CliError::usage(
                "there is more than one approval service; say which one hands the record in with --as CLIENT",
            )),
            (None, _, Some(named)) => Err(CliError::failed(format!(
                "there is no client `{named}` with the role approval_service; `writ client list` names them"
            ))),
            (None, _, None) => Err(CliError::failed(
                "no client has the role approval_service; add one with `writ client add desk --role approval_service`",
            )),
        }
    }

    async fn online(
        &self,
        context: &Context,
        config: &Config,
        store: &dyn Store,
        service: &Client,
        draft: DraftId,
        with: &dyn Fn(KeyId) -> Result<RecordSigner, CliError>,
    ) -> Result<Signing, CliError> {
        let (record, bytes) = draft::find(store, draft).await?;
        // The card as the service would get it over the wire: one way to read it, with a server and without.
        let shown = serde_json::to_vec(&DraftView::of(&record, service)).map_err(CliError::failed)?;
        let card = Card::parse(&shown).map_err(CliError::failed)?;
        card.covers(&bytes).map_err(CliError::failed)?;
        let document = DraftDocument::parse(&bytes).map_err(CliError::failed)?;
        let key = self.registered(store, with).await?;
        Ok(Signing {
            card,
            about: describe::document(&context.out, &document, &record.key, &Decimals::of(config)),
            signer: with(key.kid.clone())?,
            by: Signatory {
                issuer: key.issuer,
                approver: key.approver,
                audience: config.audience.clone(),
            },
        })
    }

    /// The registered key that the private one belongs to.
    async fn registered(&self, store: &dyn Store, with: &dyn Fn(KeyId) -> Result<RecordSigner, CliError>) -> Result<ApproverKey, CliError> {
        let any: KeyId = "any".parse().map_err(CliError::failed)?;
        let public = with(any)?.public();
        let approvers = store.approvers().await.map_err(CliError::failed)?;
        let mut fitting: Vec<ApproverKey> = approvers
            .into_iter()
            .flat_map(|entry| entry.keys)
            .filter(|key| key.public == public && self.kid.as_ref().is_none_or(|kid| *kid == key.kid))
            .collect();
        // One that still counts before one that was revoked; the broker refuses the latter with its own words.
        fitting.sort_by_key(|key| key.revoked_at.is_some());
        fitting.into_iter().next().ok_or_else(|| {
            CliError::failed(format!(
                "{}: no approver has this key registered; `writ approver add` registers public key {public}",
                self.key.display()
            ))
        })
    }

    fn offline(&self, context: &Context, with: &dyn Fn(KeyId) -> Result<RecordSigner, CliError>) -> Result<Signing, CliError> {
        let (Some(card), Some(kid), Some(approver), Some(audience)) = (&self.card, &self.kid, &self.approver, &self.audience) else {
            return Err(CliError::usage("--card needs --kid, --approver and --audience"));
        };
        let answer = read(card)?;
        let card = Card::parse(&answer).map_err(CliError::failed)?;
        if let Some(draft) = self.draft.filter(|draft| *draft != card.draft) {
            return Err(CliError::failed(format!("the card is for draft {}, not for {draft}", card.draft)));
        }
        let about = match &self.bytes {
            Some(path) => {
                let bytes = read(path)?;
                card.covers(&bytes).map_err(CliError::failed)?;
                let document = DraftDocument::parse(&bytes).map_err(CliError::failed)?;
                // With the backends' files at hand an amount is shown as people write it.
                let decimals = Config::load(&self.at.config).map_or_else(|_| Decimals::unknown(), |config| Decimals::of(&config));
                describe::document(&context.out, &document, &IdempotencyKey::of(&card.hash), &decimals)
            }
            None => format!(
                "draft {} with hash {}; what it says was not checked, --bytes FILE does that\n",
                card.draft, card.hash
            ),
        };
        Ok(Signing {
            card,
            about,
            signer: with(kid.clone())?,
            by: Signatory {
                issuer: self.issuer.clone(),
                approver: approver.clone(),
                audience: audience.clone(),
            },
        })
    }

    fn sign(&self, context: &Context, decision: Decision, signing: &Signing) -> Result<String, CliError> {
        let id = RecordId::generate(&*context.outside.clock, &*context.outside.entropy);
        let now = context.outside.clock.now();
        let reason = self.reason.trim().to_owned();
        let claims = signing
            .card
            .claims(&signing.by, decision, reason, id, now)
            .map_err(CliError::failed)?;
        signing.signer.sign(&claims).map_err(CliError::failed)
    }
}

/// The record alone on standard output, so that it can be piped on; what it is about on standard error.
fn print(context: &Context, about: &str, record: &str) -> Result<(), CliError> {
    // Whoever closed standard error wants only the record.
    drop(std::io::stderr().lock().write_all(about.as_bytes()));
    context.out.answer(&json!({ "record": record }), |_| record.to_owned())
}

fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    /// Longer than any answer of the broker.
    const MOST: u64 = 1 << 20;
    let at = |error: std::io::Error| CliError::failed(format!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(MOST).read_to_end(&mut bytes).map_err(at)?;
    } else {
        std::fs::File::open(path)
            .map_err(at)?
            .take(MOST)
            .read_to_end(&mut bytes)
            .map_err(at)?;
    }
    Ok(bytes)
}
