//! Numbers that leave no gaps: each process's events, and each case's.

use std::collections::HashMap;

use ring::digest::{Context, SHA256};

use super::report::Fault;
use crate::audit::brief::{Brief, CaseChain};
use crate::audit::tree::Hash;

/// What was counted so far. It grows with the processes and the cases, not with the events.
#[derive(Default)]
pub(super) struct Counters {
    writers: HashMap<Box<str>, u64>,
    cases: HashMap<[u8; 16], CaseChain>,
    origin: Option<Box<str>>,
    /// Whether events before are not there, so that a number may be the first one that is seen.
    pub(super) is_partial: bool,
}

impl Counters {
    /// Takes the next event that is there; tells what does not fit.
    pub(super) fn next(&mut self, event: &Brief<'_>, leaf: Hash, mut tell: impl FnMut(Fault, String)) {
        if let Some(origin) = &event.origin {
            let is_known = self.origin.as_deref().is_none_or(|known| known == &**origin);
            if !is_known && event.kind != crate::audit::Note::LogRecovered.as_str() {
                tell(Fault::Tampered, format!("it is an event of the log `{origin}`"));
            }
            if self.origin.as_deref() != Some(&**origin) {
                self.origin = Some(Box::from(&**origin));
            }
        }
        if let Some(writer) = &event.writer {
            let after = writer.n.checked_add(1).unwrap_or_else(|| {
                tell(
                    Fault::Tampered,
                    format!("it is number {} of its process, which no process reaches", writer.n),
                );
                0
            });
            let expected = match self.writers.get_mut(&*writer.id) {
                Some(next) => std::mem::replace(next, after),
                None => {
                    self.writers.insert(Box::from(&*writer.id), after);
                    if self.is_partial { writer.n } else { 0 }
                }
            };
            if writer.n != expected {
                let (id, n) = (&writer.id, writer.n);
                tell(
                    Fault::Incomplete,
                    format!("it is number {n} of the process {id}, whose next is {expected}"),
                );
            }
        }
        if let Some(case) = &event.case_id {
            let key = case_key(case, event.tenant.as_deref());
            let is_partial = self.is_partial;
            let chain = self.cases.entry(key).or_insert_with(|| {
                let place = event.case.as_ref().filter(|_| is_partial);
                place.map_or_else(CaseChain::default, CaseChain::before)
            });
            if let Err(why) = chain.next(event.case.as_ref(), leaf) {
                tell(Fault::Incomplete, why);
            }
        }
    }

    /// The name of the log by its last event.
    pub(super) fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// How many processes wrote.
    pub(super) fn writers(&self) -> u64 {
        self.writers.len() as u64
    }

    /// How many cases there are.
    pub(super) fn cases(&self) -> u64 {
        self.cases.len() as u64
    }
}

/// A short name of a case and its tenant.
fn case_key(case: &str, tenant: Option<&str>) -> [u8; 16] {
    let mut context = Context::new(&SHA256);
    context.update(case.as_bytes());
    context.update(&[0, u8::from(tenant.is_some())]);
    context.update(tenant.unwrap_or_default().as_bytes());
    let hash = context.finish();
    let mut key = [0; 16];
    key.iter_mut().zip(hash.as_ref()).for_each(|(to, from)| *to = *from);
    key
}
