//! What every transition has inside its transaction: the time, the events, and one guarded statement for each kind of thing.

use rusqlite::{Connection, ErrorCode, Params, ToSql, named_params};

use super::Tools;
use super::failure::Failure;
use super::rows::{self, to_json};
use super::{opening, prune};
use crate::audit::scan::scan_json;
use crate::audit::tree::{Hash, leaf_hash};
use crate::audit::{
    Actor, ApprovalPart, AssertionPart, CasePlace, ChangePart, CredentialPart, Event, EventBody, EventKind, Note, PolicyPart, ProviderPart,
    SD_ALG, Sensitive, SensitiveField, withhold,
};
use crate::crash_points;
use crate::domain::digest::Digest;
use crate::domain::id::{EventId, RequestId, StopId, VerdictId};
use crate::domain::json::canonical;
use crate::domain::lifecycle::{
    ApprovalState, ApprovalTransition, CredentialState, CredentialTransition, DraftState, DraftTransition, ExecutionState,
    ExecutionTransition,
};
use crate::domain::policy::Answer;
use crate::domain::time::Timestamp;
use crate::store::health::Pause;
use crate::store::record::{ApprovalRecord, Closing, CredentialRecord, DraftRecord, ExecutionRecord, SignedRecord, StoredVerdict};
use crate::store::tally::Told;
use crate::store::{Op, Rejection};

/// One transition inside its transaction.
pub(super) struct Step<'a> {
    /// The connection, inside a savepoint.
    pub(super) connection: &'a Connection,
    /// The store's time, read once inside the transaction and never earlier than what is written down: every deadline is compared with it.
    pub(super) now: Timestamp,
    /// What this process's clock says: leases and the pace of looking again count by it, so that they go on when it was set back.
    pub(super) wall: Timestamp,
    tools: &'a Tools,
    actor: Actor,
    request: Option<RequestId>,
    seq: Option<u64>,
    told: Vec<Told>,
    leaves: Vec<Hash>,
}

/// What else changes with a draft's state.
#[derive(Default)]
pub(super) struct DraftChange<'a> {
    /// The policy's answer.
    pub(super) verdict: Option<&'a StoredVerdict>,
    /// Why it ended.
    pub(super) closed: Option<Closing>,
}

impl<'a> Step<'a> {
    /// Reads the clock: a deadline that passed while the step waited its turn has passed.
    pub(super) fn new(connection: &'a Connection, tools: &'a Tools, op: &Op) -> Self {
        Self {
            actor: op.actor.clone(),
            request: op.request,
            ..Self::for_system(connection, tools)
        }
    }

    /// A step of the store's own.
    pub(super) fn for_system(connection: &'a Connection, tools: &'a Tools) -> Self {
        let wall = tools.clock.now();
        Self {
            connection,
            now: tools.pulse.advance(wall),
            wall,
            tools,
            actor: Actor::system("store"),
            request: None,
            seq: None,
            told: Vec::new(),
            leaves: Vec::new(),
        }
    }

    /// Refuses what must not begin while the clock is behind what is written down: whatever rests on a time having come, or not.
    pub(super) fn needs_clock(&self) -> Result<(), Failure> {
        match self.tools.pulse.health().pause() {
            Some(pause @ Pause::ClockBehind { .. }) => Err(Failure::Paused(pause)),
            _ => Ok(()),
        }
    }

    /// Refuses new work also while little room is left: it is kept for what has begun.
    pub(super) fn needs_room(&self) -> Result<(), Failure> {
        self.tools
            .pulse
            .health()
            .pause()
            .map_or(Ok(()), |pause| Err(Failure::Paused(pause)))
    }

    /// Refuses what must not be issued while too few witnesses have seen the log.
    pub(super) fn needs_witnesses(&self) -> Result<(), Failure> {
        let pause = self.tools.pulse.health().witnesses.pause(self.wall);
        pause.map_or(Ok(()), |pause| Err(Failure::Paused(pause)))
    }

    /// The number of the last event this step wrote, if it wrote one.
    pub(super) const fn seq(&self) -> Option<u64> {
        self.seq
    }

    /// What it told: for the tally, and the hashes for the tree.
    pub(super) fn into_events(self) -> (Vec<Told>, Vec<Hash>) {
        (self.told, self.leaves)
    }

    /// Whose step it is.
    pub(super) fn by(&self) -> String {
        self.actor.id.clone()
    }

    /// An id for a stop that the store itself places.
    pub(super) fn stop_id(&self) -> StopId {
        StopId::generate(&*self.tools.clock, &*self.tools.entropy)
    }

    /// Runs a statement and gives the number of rows it changed.
    pub(super) fn change(&self, sql: &str, params: impl Params) -> Result<usize, Failure> {
        Ok(self.connection.prepare_cached(sql)?.execute(params)?)
    }

    /// Inserts one row; a taken primary key is a rejection that names it.
    pub(super) fn insert(&self, sql: &str, id: impl std::fmt::Display, params: &[(&str, &dyn ToSql)]) -> Result<(), Failure> {
        match self.change(sql, params) {
            Ok(1) => Ok(()),
            Ok(_) => Err(Failure::Corrupt(format!("the row of {id} was not inserted"))),
            Err(Failure::Sql(error)) if is_taken_key(&error) => Err(Rejection::Exists(id.to_string()).into()),
            Err(other) => Err(other),
        }
    }

    /// An event of this kind by whoever makes the step.
    pub(super) fn event(&self, kind: EventKind) -> EventBody {
        EventBody::new(kind, self.actor.clone())
    }

    /// An event about a draft.
    pub(super) fn about(&self, kind: EventKind, draft: &DraftRecord) -> EventBody {
        draft.tell(self.event(kind))
    }

    /// Writes an event: the next number, in the transaction of the change it tells of.
    pub(super) fn emit(&mut self, body: EventBody) -> Result<(), Failure> {
        let next: i64 = rows::value(self.connection, "SELECT coalesce(max(seq) + 1, 0) FROM event", [])?;
        let seq = u64::try_from(next).map_err(|_| Failure::Corrupt("event numbers are negative".to_owned()))?;
        let (origin, writer) = self.tools.writer.of(seq);
        let body = presentable(EventBody {
            request_id: body.request_id.or(self.request),
            ..body
        });
        // What others said is looked at by itself, member by member, whatever the last look below would say of the whole.
        let (body, members) = withhold(body);
        let mut committed = opening::commit(self, seq, &body.sensitive)?;
        committed.withheld.extend(members);
        let event = Event {
            v: Event::VERSION,
            seq,
            id: EventId::generate(&*self.tools.clock, &*self.tools.entropy),
            time: self.now,
            origin,
            writer,
            case: self.case_place(&body)?,
            withheld: committed.withheld,
            sd_alg: (!committed.digests.is_empty()).then_some(SD_ALG),
            sd: committed.digests,
            body,
        };
        let text = canonical_text(&event)?;
        // Of what is left, the configuration says some, and no caller and no backend anything.
        if !names_a_key(event.body.kind)
            && scan_json(&text).is_some()
            && let Some(hit) = scan_json(&canonical_text(&told_by_others(&event.body))?)
        {
            return Err(Failure::Corrupt(format!("an event holds what has the form of {}", hit.what())));
        }
        self.tools.tally.withheld(event.withheld.len());
        let body = &event.body;
        self.change(
            "INSERT INTO event (seq, id, at, type, actor, draft, execution, body)
             VALUES (:seq, :id, :at, :type, :actor, :draft, :execution, :body)",
            named_params! {
                ":seq": next, ":id": event.id.to_string(), ":at": self.now.millis(), ":type": body.kind.as_str(), ":actor": body.actor.id,
                ":draft": body.draft.as_ref().map(|d| d.id.to_string()),
                ":execution": body.execution.as_ref().map(|e| e.id.to_string()), ":body": &text,
            },
        )?;
        crash_points::emitted(body.kind.as_str());
        self.told.push(Told::of(body));
        self.leaves.push(leaf_hash(text.as_bytes()));
        self.seq = Some(seq);
        Ok(())
    }

    /// Which of its case's events comes next, and the hash of the one before: whoever has them all can see that none is missing.
    fn case_place(&self, body: &EventBody) -> Result<Option<CasePlace>, Failure> {
        let Some(case) = &body.case_id else { return Ok(None) };
        let last = rows::first(
            self.connection,
            "SELECT body, json_extract(body, '$.case.n') AS n FROM event WHERE case_id = ?1 AND tenant IS ?2 ORDER BY seq DESC LIMIT 1",
            (case.as_str(), body.tenant.as_ref().map(|tenant| tenant.as_str())),
            |row| Ok((rows::text(row, "body")?, row.get::<_, Option<i64>>("n")?)),
        )?;
        Ok(Some(match last {
            None => self.pruned_case_place(body.tenant.as_ref().map(|tenant| tenant.as_str()), case.as_str())?,
            Some((bytes, n)) => CasePlace {
                n: n.and_then(|n| u64::try_from(n).ok()).unwrap_or(0) + 1,
                previous: Some(Digest::from_bytes(leaf_hash(bytes.as_bytes()).0)),
            },
        }))
    }

    /// The place after the last event that was pruned; the first one, if none was.
    fn pruned_case_place(&self, tenant: Option<&str>, case: &str) -> Result<CasePlace, Failure> {
        let tail = rows::first(
            self.connection,
            "SELECT n, leaf FROM case_tail WHERE case_key = ?1",
            [prune::case_key(tenant, case)],
            |row| Ok((rows::number::<u64>(row, "n")?, row.get::<_, [u8; 32]>("leaf")?)),
        )?;
        Ok(match tail {
            None => CasePlace { n: 1, previous: None },
            Some((n, leaf)) => CasePlace {
                n: n + 1,
                previous: Some(Digest::from_bytes(leaf)),
            },
        })
    }

    /// Where the step's time, chance and keys come from.
    pub(super) const fn tools(&self) -> &'a Tools {
        self.tools
    }

    /// A value that an event about this draft commits to, kept by the key of the draft's customer.
    pub(super) fn sensitive(
        &self,
        draft: crate::domain::id::DraftId,
        field: SensitiveField,
        value: Option<&str>,
    ) -> Result<Vec<Sensitive>, Failure> {
        let Some(value) = value else { return Ok(Vec::new()) };
        let subject = rows::value::<Option<String>>(self.connection, "SELECT subject FROM draft WHERE id = ?1", [draft.to_string()])?;
        Ok(vec![Sensitive {
            field,
            value: value.to_owned(),
            subject: subject.unwrap_or_else(|| draft.to_string()),
        }])
    }

    /// Moves a draft, and writes the event.
    pub(super) fn move_draft(
        &mut self,
        draft: &DraftRecord,
        transition: DraftTransition,
        change: DraftChange<'_>,
        fill: impl FnOnce(EventBody) -> EventBody,
    ) -> Result<(), Failure> {
        use DraftTransition as T;
        let in_time = matches!(transition, T::AutoApprove | T::Hold | T::Approve | T::Consume);
        let to = transition.to();
        let ends = !to.is_open() && to != DraftState::Consumed;
        let moved = self.change(
            "UPDATE draft SET state = :to, changed_at = :now, verdict = coalesce(:verdict, verdict), closed = coalesce(:closed, closed),
                    settled_at = CASE WHEN :ends THEN :now ELSE settled_at END
             WHERE id = :id AND state IN (SELECT value FROM json_each(:from)) AND (NOT :in_time OR expires_at > :now)",
            named_params! {
                ":id": draft.id.to_string(), ":to": to.as_str(), ":from": words(transition.from(), DraftState::as_str),
                ":now": self.now.millis(), ":in_time": in_time, ":ends": ends,
                ":verdict": change.verdict.map(to_json).transpose()?,
                ":closed": change.closed.as_ref().map(to_json).transpose()?,
            },
        )?;
        if moved == 0 {
            let late = transition.from().contains(&draft.state) && draft.expires_at <= self.now;
            return Err(if late {
                Rejection::DraftExpired(draft.expires_at)
            } else {
                Rejection::DraftIs(draft.state)
            }
            .into());
        }
        let event = EventBody {
            state: Some(ChangePart {
                from: Some(draft.state.as_str()),
                to: to.as_str(),
            }),
            ..self.about(EventKind::Draft(transition), draft)
        };
        self.emit(fill(event))
    }

    /// Moves an approval, and writes the event.
    pub(super) fn move_approval(
        &mut self,
        draft: &DraftRecord,
        approval: &ApprovalRecord,
        transition: ApprovalTransition,
        execute_by: Option<Timestamp>,
        fill: impl FnOnce(EventBody) -> EventBody,
    ) -> Result<(), Failure> {
        use ApprovalTransition as T;
        let in_time = matches!(transition, T::Grant | T::Refuse);
        let moved = self.change(
            "UPDATE approval SET state = :to, changed_at = :now, execute_by = coalesce(:execute_by, execute_by)
             WHERE id = :id AND state IN (SELECT value FROM json_each(:from)) AND (NOT :in_time OR expires_at > :now)",
            named_params! {
                ":id": approval.id.to_string(), ":to": transition.to().as_str(),
                ":from": words(transition.from(), ApprovalState::as_str), ":now": self.now.millis(), ":in_time": in_time,
                ":execute_by": execute_by.map(Timestamp::millis),
            },
        )?;
        if moved == 0 {
            let late = transition.from().contains(&approval.state) && approval.expires_at <= self.now;
            return Err(if late {
                Rejection::ApprovalExpired(approval.expires_at)
            } else {
                Rejection::ApprovalIs(approval.state)
            }
            .into());
        }
        let event = EventBody {
            approval: Some(approval_part(approval, None)),
            state: Some(ChangePart {
                from: Some(approval.state.as_str()),
                to: transition.to().as_str(),
            }),
            ..self.about(EventKind::Approval(transition), draft)
        };
        self.emit(fill(event))
    }

    /// Moves a credential, and writes the event.
    pub(super) fn move_credential(
        &mut self,
        draft: &DraftRecord,
        credential: &CredentialRecord,
        transition: CredentialTransition,
        fill: impl FnOnce(EventBody) -> EventBody,
    ) -> Result<(), Failure> {
        let in_time = transition == CredentialTransition::Redeem;
        let moved = self.change(
            "UPDATE credential SET state = :to, changed_at = :now
             WHERE id = :id AND draft = :draft AND approval = :approval AND hash = :hash AND audience = :audience
                AND state IN (SELECT value FROM json_each(:from)) AND (NOT :in_time OR expires_at > :now)",
            named_params! {
                ":id": credential.id.to_string(), ":draft": draft.id.to_string(), ":approval": credential.approval.to_string(),
                ":hash": draft.hash.to_string(), ":audience": credential.audience.as_str(), ":to": transition.to().as_str(),
                ":from": words(transition.from(), CredentialState::as_str), ":now": self.now.millis(), ":in_time": in_time,
            },
        )?;
        if moved == 0 {
            let late = transition.from().contains(&credential.state) && credential.expires_at <= self.now;
            return Err(if late {
                Rejection::CredentialExpired(credential.expires_at)
            } else {
                Rejection::CredentialIs(credential.state)
            }
            .into());
        }
        let event = EventBody {
            credential: Some(credential_part(credential)),
            approval: draft.approval.as_ref().map(|approval| approval_part(approval, None)),
            state: Some(ChangePart {
                from: Some(credential.state.as_str()),
                to: transition.to().as_str(),
            }),
            ..self.about(EventKind::Credential(transition), draft)
        };
        self.emit(fill(event))
    }

    /// Moves an execution from how it was read to `then`, whose state is the transition's, and writes the event.
    ///
    /// `fence` is what the caller holds; nobody who holds an older one writes anything.
    pub(super) fn move_execution(
        &mut self,
        was: &ExecutionRecord,
        transition: ExecutionTransition,
        fence: u64,
        then: &ExecutionRecord,
        fill: impl FnOnce(EventBody) -> EventBody,
    ) -> Result<(), Failure> {
        self.write_execution(was, fence, transition.from(), Some(transition), then)?;
        let event = EventBody {
            state: Some(ChangePart {
                from: Some(was.state.as_str()),
                to: transition.to().as_str(),
            }),
            ..self.about_execution(EventKind::Execution(transition), then)?
        };
        self.emit(fill(event))
    }

    /// Changes an execution's other columns while its state stays.
    pub(super) fn keep_execution(
        &mut self,
        was: &ExecutionRecord,
        fence: u64,
        from: &[ExecutionState],
        then: &ExecutionRecord,
    ) -> Result<(), Failure> {
        self.write_execution(was, fence, from, None, then)
    }

    fn write_execution(
        &self,
        was: &ExecutionRecord,
        fence: u64,
        from: &[ExecutionState],
        transition: Option<ExecutionTransition>,
        then: &ExecutionRecord,
    ) -> Result<(), Failure> {
        use ExecutionTransition as T;
        let changed_at = if transition.is_some() { self.now } else { was.changed_at };
        let changed = self.change(
            "UPDATE execution SET state = coalesce(:to, state), changed_at = :changed_at, fence = :new_fence, holder = :holder,
                    lease_until = :lease_until, credential = :credential, first_sent_at = :first_sent_at, send_until = :send_until,
                    next_action_at = :next_action_at, reference = :reference, code = :code, evidence = :evidence,
                    handed_off_at = :handed_off_at, handed_off_code = :handed_off_code
             WHERE id = :id AND fence = :fence AND state IN (SELECT value FROM json_each(:from))
                AND (NOT :in_window OR (send_until > :now AND first_sent_at <= :now))",
            named_params! {
                ":id": was.id.to_string(), ":fence": whole(fence), ":from": words(from, ExecutionState::as_str),
                ":to": transition.map(|t| t.to().as_str()), ":in_window": transition == Some(T::Resend), ":now": self.now.millis(),
                ":changed_at": changed_at.millis(), ":new_fence": whole(then.fence), ":holder": then.holder,
                ":lease_until": then.lease_until.millis(), ":credential": then.credential.to_string(),
                ":first_sent_at": then.first_sent_at.map(Timestamp::millis), ":send_until": then.send_until.map(Timestamp::millis),
                ":next_action_at": then.next_action_at.map(Timestamp::millis), ":reference": then.reference, ":code": then.code,
                ":evidence": then.evidence, ":handed_off_at": then.handed_off.as_ref().map(|h| h.at.millis()),
                ":handed_off_code": then.handed_off.as_ref().map(|h| &h.code),
            },
        )?;
        if changed == 1 {
            return Ok(());
        }
        Err(if was.fence != fence {
            Rejection::Fenced {
                given: fence,
                current: was.fence,
            }
        } else if let (true, Some(T::Resend), Some(until)) = (from.contains(&was.state), transition, was.send_until) {
            Rejection::SendWindowClosed(until)
        } else {
            Rejection::ExecutionIs(was.state)
        }
        .into())
    }

    /// An event about an execution and its draft.
    pub(super) fn about_execution(&self, kind: EventKind, execution: &ExecutionRecord) -> Result<EventBody, Failure> {
        let draft = self.draft(execution.draft)?;
        Ok(EventBody {
            execution: Some(execution.part()),
            credential: Some(CredentialPart {
                id: execution.credential,
                root_key_id: None,
                audience: None,
                expires_at: None,
            }),
            approval: draft.approval.as_ref().map(|approval| approval_part(approval, None)),
            ..self.about(kind, &draft)
        })
    }

    /// The draft as it stands in this transaction.
    pub(super) fn draft(&self, id: crate::domain::id::DraftId) -> Result<DraftRecord, Failure> {
        rows::draft(self.connection, id)?.ok_or_else(|| Rejection::NotFound.into())
    }

    /// The execution as it stands in this transaction.
    pub(super) fn execution(&self, id: crate::domain::id::ExecutionId) -> Result<ExecutionRecord, Failure> {
        rows::execution(self.connection, id)?.ok_or_else(|| Rejection::NotFound.into())
    }

    /// Marks that nothing can come of the draft any more, so that the same may be proposed anew.
    pub(super) fn settle_draft(&self, draft: crate::domain::id::DraftId) -> Result<(), Failure> {
        self.change(
            "UPDATE draft SET settled_at = :now WHERE id = :id AND settled_at IS NULL",
            named_params! { ":id": draft.to_string(), ":now": self.now.millis() },
        )?;
        Ok(())
    }
}

/// The states' words as a JSON array, to be bound.
pub(super) fn words<S: Copy>(states: &[S], word: fn(S) -> &'static str) -> String {
    let quoted: Vec<String> = states.iter().map(|state| format!("\"{}\"", word(*state))).collect();
    format!("[{}]", quoted.join(","))
}

/// The event without what the configuration says.
fn told_by_others(body: &EventBody) -> EventBody {
    let credential = body.credential.clone().map(|part| CredentialPart { audience: None, ..part });
    EventBody {
        credential,
        ..body.clone()
    }
}

/// An event's bytes.
fn canonical_text(event: &impl serde::Serialize) -> Result<String, Failure> {
    let bytes = canonical(event).map_err(|error| Failure::Corrupt(format!("an event has no canonical form: {error}")))?;
    String::from_utf8(bytes).map_err(|error| Failure::Corrupt(format!("an event is not text: {error}")))
}

/// Whether it is one of the two events that name a public key of the log, which nobody outside has written.
const fn names_a_key(kind: EventKind) -> bool {
    matches!(kind, EventKind::Note(Note::LogKeyRotated | Note::LogRecovered))
}

/// A counter as SQLite keeps it.
pub(super) fn whole(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn is_taken_key(error: &rusqlite::Error) -> bool {
    let rusqlite::Error::SqliteFailure(code, _) = error else {
        return false;
    };
    code.code == ErrorCode::ConstraintViolation && code.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY
}

/// The approval's part of an event, with the record that came, if one did.
pub(super) fn approval_part(approval: &ApprovalRecord, record: Option<&SignedRecord>) -> ApprovalPart {
    ApprovalPart {
        id: approval.id,
        record_id: record.map(|r| r.id),
        approver: record.map(|r| r.approver.clone()),
        kid: record.map(|r| r.kid.clone()),
        decision: record.map(|r| r.decision),
        record_sha256: record.map(|r| Digest::of(r.jws.as_bytes())),
        assertion: None,
    }
}

/// The approval's part of the event that counts a record: with the approver's own signature.
pub(super) fn counted_part(approval: &ApprovalRecord, record: &SignedRecord) -> ApprovalPart {
    ApprovalPart {
        assertion: AssertionPart::of(&record.kid, &record.jws),
        ..approval_part(approval, Some(record))
    }
}

/// The credential's part of an event.
pub(super) fn credential_part(credential: &CredentialRecord) -> CredentialPart {
    CredentialPart {
        id: credential.id,
        root_key_id: Some(credential.root_key_id),
        audience: Some(credential.audience.clone()),
        expires_at: Some(credential.expires_at),
    }
}

/// The policy's part of an event.
pub(super) fn policy_part(verdict_id: VerdictId, answer: &Answer) -> PolicyPart {
    PolicyPart {
        verdict_id,
        policy: answer.policy.clone(),
        outcome: answer.outcome,
        rules: answer.rules.iter().map(|rule| rule.id.clone()).collect(),
    }
}

/// The event with nothing in its free texts that canonical JSON refuses: a backend may put anything into its own ids, and the result of a
/// sent request must always be recorded.
fn presentable(body: EventBody) -> EventBody {
    let refused = |c: char| c.is_control() || (0xFDD0..=0xFDEF).contains(&u32::from(c)) || u32::from(c) & 0xFFFE == 0xFFFE;
    let clean = |text: String| {
        text.chars()
            .map(|c| if refused(c) { char::REPLACEMENT_CHARACTER } else { c })
            .collect::<String>()
    };
    EventBody {
        actor: Actor::new(body.actor.kind, clean(body.actor.id)),
        code: body.code.map(clean),
        subject: body.subject.map(clean),
        provider: body.provider.map(|provider| ProviderPart {
            reference: provider.reference.map(clean),
            rule: provider.rule.map(clean),
            ..provider
        }),
        ..body
    }
}
