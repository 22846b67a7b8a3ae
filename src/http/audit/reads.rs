//! Every read of the log is itself in the log: the first of a caller in a minute before it is answered, the others counted in one event after it, so
//! that reading does not feed itself.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::audit::{EventBody, EventKind, Note};
use crate::broker::Caller;
use crate::domain::digest::Digest;
use crate::domain::id::OperationId;
use crate::domain::name::{ClientId, TenantId};
use crate::domain::time::Timestamp;
use crate::http::{Common, Problem};
use crate::store::{Op, StoreError};

/// The subject of reads that were of several kinds.
const SEVERAL: &str = "several";

/// The reads that were only counted.
#[derive(Debug, Default)]
pub(super) struct Reads(Mutex<BTreeMap<ClientId, Counted>>);

/// Those of one caller.
#[derive(Debug)]
struct Counted {
    tenant: TenantId,
    /// The minute whose first read is in the log; `None` if the next one has to be.
    minute: Option<i64>,
    subject: Option<String>,
    count: u64,
}

/// Reads that are to be written down.
struct Due {
    client: ClientId,
    tenant: TenantId,
    subject: String,
    count: u64,
}

fn minute(at: Timestamp) -> i64 {
    at.seconds().div_euclid(60)
}

impl Counted {
    fn count(&mut self, subject: &str, by: u64) {
        self.count += by;
        let same = self.subject.as_deref().is_none_or(|known| known == subject);
        self.subject = Some(if same { subject } else { SEVERAL }.to_owned());
    }

    fn take(&mut self, client: &ClientId) -> Option<Due> {
        let subject = self.subject.take()?;
        Some(Due {
            client: client.clone(),
            tenant: self.tenant.clone(),
            subject,
            count: std::mem::take(&mut self.count),
        })
    }
}

impl Reads {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ClientId, Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a read if the first one of this minute is in the log; otherwise this is the first, and it is for the caller to write it down.
    fn is_counted(&self, caller: &Caller, subject: &str, now: Timestamp) -> bool {
        let mut all = self.lock();
        let own = all.entry(caller.client.id.clone()).or_insert_with(|| Counted {
            tenant: caller.client.tenant.clone(),
            minute: None,
            subject: None,
            count: 0,
        });
        let is_counted = own.minute == Some(minute(now));
        if is_counted {
            own.count(subject, 1);
        }
        own.minute = Some(minute(now));
        is_counted
    }

    /// The first read of the minute could not be written down: the next one is the first.
    fn forget(&self, client: &ClientId) {
        if let Some(own) = self.lock().get_mut(client) {
            own.minute = None;
        }
    }

    /// What is to be written down of the minutes before `now`, or of all.
    fn due(&self, now: Option<Timestamp>) -> Vec<Due> {
        let mut all = self.lock();
        let is_over = |own: &Counted| now.is_none_or(|now| own.minute != Some(minute(now)));
        let due = all.iter_mut().filter(|(_, own)| is_over(own));
        let due = due.filter_map(|(client, own)| own.take(client)).collect();
        all.retain(|_, own| own.subject.is_some() || !is_over(own));
        due
    }

    fn put_back(&self, due: &Due) {
        let mut all = self.lock();
        let own = all.entry(due.client.clone()).or_insert_with(|| Counted {
            tenant: due.tenant.clone(),
            minute: None,
            subject: None,
            count: 0,
        });
        own.count(&due.subject, due.count);
    }
}

/// Records a read before it is answered. What cannot be recorded is not answered.
pub(in crate::http) async fn record(common: &Common, caller: &Caller, subject: &str, query: &str) -> Result<(), Problem> {
    let reads = &common.audit.reads;
    if reads.is_counted(caller, subject, common.clock.now()) {
        return Ok(());
    }
    let op = Op {
        id: OperationId::generate(&*common.clock, &*common.entropy),
        actor: caller.actor(),
        request: Some(caller.request),
    };
    let event = EventBody {
        tenant: Some(caller.client.tenant.clone()),
        subject: Some(subject.to_owned()),
        content_sha256: Some(Digest::of(query.as_bytes())),
        ..EventBody::new(EventKind::Note(Note::AuditRead), caller.actor())
    };
    let noted = common.store.note(op, event).await;
    if noted.is_err() {
        reads.forget(&caller.client.id);
    }
    noted.map(drop).map_err(Problem::from)
}

/// Writes down the reads of past minutes that were only counted.
pub async fn note_reads(common: &Common) {
    note(common, common.audit.reads.due(Some(common.clock.now()))).await;
}

/// Writes down all reads that were only counted; for the end of the process.
pub async fn note_all_reads(common: &Common) {
    note(common, common.audit.reads.due(None)).await;
}

async fn note(common: &Common, due: Vec<Due>) {
    for due in due {
        if let Err(error) = tell(common, &due).await {
            tracing::error!(%error, "reads of the log could not be written down; they are counted on");
            common.audit.reads.put_back(&due);
        }
    }
}

async fn tell(common: &Common, due: &Due) -> Result<(), StoreError> {
    let actor = crate::audit::Actor::new(crate::audit::ActorKind::Client, due.client.as_str());
    let op = Op {
        id: OperationId::generate(&*common.clock, &*common.entropy),
        actor: actor.clone(),
        request: None,
    };
    let event = EventBody {
        tenant: Some(due.tenant.clone()),
        subject: Some(due.subject.clone()),
        count: Some(due.count),
        ..EventBody::new(EventKind::Note(Note::AuditRead), actor)
    };
    common.store.note(op, event).await.map(drop)
}
