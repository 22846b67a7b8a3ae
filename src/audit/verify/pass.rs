//! One pass over a log, from the first event to the last: every leaf is hashed from its bytes, every root is recomputed, and everything that was signed
//! is compared on the way. It keeps the right edge of the tree and what is numbered, never the events.

use std::collections::{HashMap, HashSet};

use super::anchor::OutsideHead;
use super::counters::Counters;
use super::epochs::{Epochs, Standing};
use super::range::{CompactRange, of_leaf};
use super::report::{Anchor, CaseSeen, Fault, Report};
use super::state::Replay;
use super::{Asked, HEADS, NODES};
use crate::audit::brief::{Brief, newer};
use crate::audit::source::{KeptHead, LogSource, Nodes, PAGE, Page, SourceError};
use crate::audit::tree::{Edge, Hash, MAX_SIZE, Node};
use crate::audit::{Event, Note, SignedHead, TrustPolicy, VerifierKey};
use crate::domain::time::Timestamp;

/// The pass while it runs.
pub(super) struct Pass<'a, S: ?Sized> {
    source: &'a S,
    trust: &'a TrustPolicy,
    asked: &'a Asked<'a>,
    witnesses: Vec<VerifierKey>,
    range: CompactRange,
    epochs: Epochs,
    counters: Counters,
    nodes: NodeStream,
    heads: HeadStream,
    /// The newest head that enough witnesses have signed, and the newest that enough have signed lately.
    witnessed: Option<Witnessed>,
    fresh: Option<u64>,
    /// The root at the size of each anchor.
    roots: HashMap<u64, Hash>,
    /// The sizes of the anchors.
    sizes: HashSet<u64>,
    /// The last head that a key of the log has signed.
    signed: Option<u64>,
    last_time: Option<Timestamp>,
    replay: Option<Replay>,
    is_changed: bool,
    /// The last event that the log says is pruned, and the root up to and with it.
    pruned: Option<(u64, String)>,
    pub(super) report: Report,
}

/// A head with the witnesses that have signed it.
struct Witnessed {
    size: u64,
    by: Vec<(String, Timestamp)>,
}

/// The kept nodes in their order.
#[derive(Default)]
struct NodeStream {
    /// The number of the node that comes next.
    next: u64,
    page: std::collections::VecDeque<Node>,
    is_over: bool,
}

/// The kept heads in their order.
#[derive(Default)]
struct HeadStream {
    above: Option<u64>,
    page: std::collections::VecDeque<KeptHead>,
    is_over: bool,
}

impl<'a, S: LogSource + ?Sized> Pass<'a, S> {
    pub(super) fn new(source: &'a S, trust: &'a TrustPolicy, asked: &'a Asked<'a>) -> Self {
        Self {
            source,
            trust,
            asked,
            witnesses: trust.witnesses(),
            range: CompactRange::default(),
            epochs: Epochs::new(trust.logs()),
            counters: Counters::default(),
            nodes: NodeStream::default(),
            heads: HeadStream::default(),
            witnessed: None,
            fresh: None,
            roots: HashMap::new(),
            sizes: asked
                .anchors
                .iter()
                .flat_map(|anchor| anchor.heads())
                .map(SignedHead::size)
                .collect(),
            signed: None,
            last_time: None,
            replay: asked.state.is_some().then(Replay::default),
            is_changed: false,
            pruned: None,
            report: Report::default(),
        }
    }

    /// Runs it. What is wrong with the log is in the report; an error says that it could not be read.
    pub(super) fn run(mut self) -> Result<Report, SourceError> {
        let size = self.source.size()?;
        let Some(latest) = self.latest(size)? else { return Ok(self.report) };
        if latest.size() > MAX_SIZE {
            self.report.find(Fault::Tampered, too_large(latest.size()));
            return Ok(self.report);
        }
        let end = size.max(latest.size());
        let (first, until) = self.source.held()?;
        let mut page = Page::default();
        let mut next = 0;
        self.at_size()?;
        while next < end {
            if next < first || next >= until {
                let stop = if next < first { first.min(end) } else { end };
                self.counters.is_partial = true;
                if !self.without_bytes(next..stop, None)? {
                    return Ok(self.ended(&latest));
                }
                next = stop;
                continue;
            }
            self.source.leaves(next, PAGE, &mut page)?;
            let Some(last) = page.last() else {
                self.without_bytes(next..end, Some("are missing"))?;
                return self.ended_with(&latest);
            };
            if last < next {
                return Err(SourceError(format!("asked for event {next}, the log gives event {last}")));
            }
            for (seq, leaf) in page.iter() {
                if seq < next {
                    self.report.find(Fault::Tampered, format!("event {seq} stands there twice"));
                    continue;
                }
                if seq > next {
                    let stop = seq.min(end);
                    self.counters.is_partial = true;
                    if !self.without_bytes(next..stop, Some("are missing"))? {
                        return self.ended_with(&latest);
                    }
                }
                self.event(seq, leaf)?;
                next = seq + 1;
            }
        }
        self.ended_with(&latest)
    }

    /// The latest head, if one is there that can be read.
    fn latest(&mut self, size: u64) -> Result<Option<SignedHead>, SourceError> {
        let Some(kept) = self.source.latest()? else {
            self.report.size = size;
            self.report
                .find(Fault::Tampered, "there is no signed head: nobody has vouched for any of it");
            return Ok(None);
        };
        match SignedHead::read(&kept.text) {
            Ok(head) => {
                self.report.origin = Some(head.origin().to_string());
                self.report.size = head.size();
                if head.size() < size {
                    self.report.find(
                        Fault::Tampered,
                        format!("the events from {} to {} are under no signed head", head.size(), size - 1),
                    );
                }
                Ok(Some(head))
            }
            Err(error) => {
                self.report.size = size;
                self.report.find(Fault::Tampered, format!("the latest head: {error}"));
                Ok(None)
            }
        }
    }

    /// Takes an event that is there.
    fn event(&mut self, seq: u64, leaf: &[u8]) -> Result<(), SourceError> {
        let hash = of_leaf(leaf);
        let event = match Brief::read(leaf) {
            Ok(event) => Some(event),
            Err(why) => {
                if newer(leaf).is_none() {
                    self.report.find(Fault::Tampered, format!("event {seq}: {why}"));
                }
                None
            }
        };
        // Its bytes are hashed like any other's: a number in them does not excuse what was changed.
        if event.as_ref().is_none_or(|event| event.v > u64::from(Event::VERSION))
            && let Some(version) = newer(leaf)
        {
            self.report.newer(seq, version);
            self.replay = None;
        }
        if let Some(event) = event {
            if event.seq != seq {
                self.report
                    .find(Fault::Tampered, format!("event {seq} says that it is event {}", event.seq));
            }
            if let Some(pruned) = event.pruned.as_ref().filter(|_| event.kind == Note::RetentionPruned.as_str()) {
                self.pruned = Some((pruned.to, pruned.root.to_string()));
            }
            if let Some(key) = event.log.as_ref().and_then(|log| log.key.parse().ok()) {
                if event.kind == Note::LogKeyRotated.as_str() {
                    self.epochs.announce(key);
                } else if event.kind == Note::LogRecovered.as_str() {
                    self.epochs.recovered(key);
                }
            }
            let report = &mut self.report;
            self.counters
                .next(&event, Hash(hash), |fault, why| report.find(fault, format!("event {seq}: {why}")));
            self.about(seq, &event);
            // Without what went before, a step looks as if it came from nowhere.
            if let Some(replay) = self.replay.as_mut().filter(|_| !self.counters.is_partial) {
                replay.next(leaf, |why| report_at(&mut self.report, seq, why));
            }
        }
        self.report.events += 1;
        self.grow(seq, Some(hash)).map(drop)
    }

    /// Notes what the report says of the event.
    fn about(&mut self, seq: u64, event: &Brief<'_>) {
        if self.report.first.is_none() {
            self.report.first = Some(seq);
            self.report.first_time = Some(event.time.to_string());
        }
        self.report.last = Some(seq);
        self.report.last_time.get_or_insert_default().clear();
        self.report.last_time.get_or_insert_default().push_str(&event.time);
        if let (Some(asked), Some(case)) = (&self.asked.case, &event.case_id)
            && **asked == **case
        {
            let tenant = event.tenant.as_deref();
            let seen = self.report.case.iter_mut().find(|seen| seen.tenant.as_deref() == tenant);
            match seen {
                Some(seen) => seen.events += 1,
                None => self.report.case.push(CaseSeen {
                    case_id: case.to_string(),
                    tenant: tenant.map(str::to_owned),
                    events: 1,
                }),
            }
        }
    }

    /// Goes on by the hashes that the tree keeps, where the bytes are not there; `why` if they should be. `false` if the hashes are not there either.
    fn without_bytes(&mut self, seqs: std::ops::Range<u64>, why: Option<&str>) -> Result<bool, SourceError> {
        if let (Some(why), Some(last)) = (why, seqs.end.checked_sub(1)) {
            self.report
                .find(Fault::Incomplete, format!("the events from {} to {last} {why}", seqs.start));
        }
        for seq in seqs {
            if !self.grow(seq, None)? {
                self.report.find(
                    Fault::Incomplete,
                    format!("event {seq} is not there, and neither is its hash: what follows cannot be verified"),
                );
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds a leaf to the tree: the hash of its bytes, or else the one that the tree keeps. Each node that comes to be must be the one that is kept.
    fn grow(&mut self, seq: u64, of_bytes: Option<[u8; 32]>) -> Result<bool, SourceError> {
        let kept = self.nodes.peek(self.source)?;
        let leaf = match (of_bytes, kept) {
            (Some(hash), Some(kept)) if hash != kept.0 && self.source.keeps_level(0) => {
                self.is_changed = true;
                self.report.find(
                    Fault::Tampered,
                    format!("event {seq} does not have the hash that the tree has for it"),
                );
                hash
            }
            (Some(hash), _) => hash,
            (None, Some(kept)) => kept.0,
            (None, None) => return Ok(false),
        };
        let (mut grown, mut count) = ([(0_u8, [0_u8; 32]); 65], 0);
        self.range.push(leaf, |node| {
            if let Some(place) = grown.get_mut(count) {
                *place = node;
                count += 1;
            }
        });
        for (level, hash) in grown.into_iter().take(count) {
            let index = self.nodes.next;
            let kept = self.nodes.take(self.source)?;
            if !self.source.keeps_level(level) {
                continue;
            }
            match kept {
                // What an event's change changes above it is one finding, not two.
                Some(kept) if kept.0 != hash && !self.is_changed => {
                    self.is_changed = true;
                    self.report.find(
                        Fault::Tampered,
                        format!("node {index} of the tree, above event {seq}, is not what is below it"),
                    );
                }
                None => self.report.find(
                    Fault::Incomplete,
                    format!("node {index} of the tree, above event {seq}, is missing"),
                ),
                Some(_) => {}
            }
        }
        self.at_size()?;
        Ok(true)
    }

    /// Compares whatever was signed for this size.
    fn at_size(&mut self) -> Result<(), SourceError> {
        let size = self.range.size();
        if self.sizes.contains(&size) {
            self.roots.insert(size, self.range.root());
        }
        while let Some(kept) = self.heads.upto(self.source, size)? {
            self.report.heads += 1;
            let head = match SignedHead::read(&kept.text) {
                Ok(head) if head.size() == kept.size && kept.size == size => head,
                Ok(head) => {
                    self.report.find(
                        Fault::Tampered,
                        format!("the head that is filed under {} events covers {}", kept.size, head.size()),
                    );
                    continue;
                }
                Err(error) => {
                    self.report.find(
                        Fault::Tampered,
                        format!("the head that is filed under {} events: {error}", kept.size),
                    );
                    continue;
                }
            };
            self.head(&head);
        }
        Ok(())
    }

    /// Takes a head of this size.
    fn head(&mut self, head: &SignedHead) {
        let size = head.size();
        if head.root() != self.range.root() {
            self.report.find(
                Fault::Tampered,
                format!("the events up to {size} do not have the root that the head over them signs"),
            );
            return;
        }
        match self.epochs.head(head) {
            Ok(Standing::Signed) => self.signed = Some(size),
            Ok(Standing::Before) => {}
            Err(why) => self.report.find(Fault::Tampered, format!("the head over {size} events: {why}")),
        }
        let cosigners = match head.cosigners(&self.witnesses) {
            Ok(cosigners) => cosigners,
            Err(error) => {
                return self
                    .report
                    .find(Fault::Tampered, format!("the head over {size} events: a witness's line: {error}"));
            }
        };
        // A signature over no events vouches for none.
        if !self.trust.has_quorum() || size == 0 {
            return;
        }
        let all: Vec<&VerifierKey> = cosigners.iter().map(|(key, _)| *key).collect();
        if self.trust.is_met_by(&all) {
            self.witnessed = Some(Witnessed {
                size,
                by: cosigners.iter().map(|(key, at)| (key.name().to_string(), *at)).collect(),
            });
            let fresh = cosigners.iter().filter(|(_, at)| self.asked.is_fresh(*at));
            if self.trust.is_met_by(&fresh.map(|(key, _)| *key).collect::<Vec<_>>()) {
                self.fresh = Some(size);
            }
        }
    }

    fn ended_with(self, latest: &SignedHead) -> Result<Report, SourceError> {
        let mut pass = self;
        if pass.counters.is_partial && pass.replay.take().is_some() {
            let why = "--state needs every event, and some are not there: compare the state with a copy from before they were pruned";
            pass.report.find(Fault::Incomplete, why);
        }
        if let (Some(replay), Some(tables)) = (pass.replay.take(), pass.asked.state) {
            let report = &mut pass.report;
            let seen = replay.compare(tables, |what| report.find(Fault::Tampered, what))?;
            pass.report.state = Some(seen);
        }
        pass.pruned()?;
        // What is kept past the end.
        let size = pass.range.size();
        if let Some(index) = pass.nodes.peek_number(pass.source)? {
            pass.report.find(
                Fault::Tampered,
                format!("the tree has nodes past its {size} events, from {index} on"),
            );
        }
        if pass.heads.upto(pass.source, u64::MAX)?.is_some() {
            pass.report
                .find(Fault::Incomplete, format!("a head is kept that covers more than the {size} events"));
        }
        Ok(pass.ended(latest))
    }

    /// What the whole log does not hold any more it must have said itself, with the root that still stands.
    fn pruned(&mut self) -> Result<(), SourceError> {
        let (first, _) = self.source.held()?;
        // Lines alone have no tree to be compared.
        if let Some((to, root)) = self.pruned.as_ref().filter(|_| self.source.keeps_level(0)) {
            let size = to.checked_add(1).filter(|size| *size <= self.range.size());
            let still = size.and_then(|size| Edge::read(size, &Nodes(self.source)).and_then(|edge| edge.root()).ok());
            if still.is_none_or(|still| still.to_string() != *root) {
                let what = format!("the tree does not have the root that the log names for the events up to {to}, which it pruned");
                self.report.find(Fault::Tampered, what);
            }
        }
        if !self.source.is_whole() || first == 0 {
            return Ok(());
        }
        let is_told = self.pruned.as_ref().is_some_and(|(to, _)| first <= to.saturating_add(1));
        if is_told {
            self.report.pruned = Some(first);
        } else {
            let what = format!("the events before {first} are not there, and the log does not say that they were pruned");
            self.report.find(Fault::Incomplete, what);
        }
        Ok(())
    }

    /// The log as a whole: its latest head, the anchors, the witnesses.
    fn ended(mut self, latest: &SignedHead) -> Report {
        let size = self.range.size();
        if size < latest.size() {
            let missing = format!("the latest head covers {} events and {size} are there", latest.size());
            self.report.find(Fault::Incomplete, missing);
        } else if self.signed.is_none_or(|signed| signed < latest.size()) && !self.report.has(Fault::Tampered) {
            let why = self.epochs.vouch(latest).err();
            let why = why.map_or_else(|| "it is not kept with the others".to_owned(), |(_, why)| why);
            self.report
                .find(Fault::Tampered, format!("the latest head, over {} events: {why}", latest.size()));
        }
        if self.counters.origin().is_some_and(|origin| origin != latest.origin().as_str()) {
            self.report.find(
                Fault::Tampered,
                format!("its events are not those of the log `{}`", latest.origin()),
            );
        }
        self.report.root = (size == latest.size()).then(|| self.range.root().to_string());
        self.report.writers = self.counters.writers();
        self.report.cases = self.counters.cases();
        self.report.keys = self.epochs.spans();
        self.last_time = self.report.last_time.as_deref().and_then(Timestamp::parse);
        for anchor in &self.asked.anchors {
            self.anchor(anchor);
        }
        self.witnesses();
        if let (Some(case), true) = (&self.asked.case, self.report.case.is_empty()) {
            self.report.find(Fault::Incomplete, format!("no event of the case {case} is there"));
        }
        self.report
    }

    fn anchor(&mut self, anchor: &OutsideHead) {
        let (from, there, roots) = (&anchor.from, self.range.size(), &self.roots);
        let taken_back = |size: u64| {
            let why = format!("the log has {there} events, and {from} shows that it had {size}: it was taken back");
            (Fault::RolledBack, why)
        };
        let root = |size: u64| roots.get(&size).copied();
        anchor.compare(&self.epochs, root, taken_back, &mut self.report);
    }

    fn witnesses(&mut self) {
        let age = self.asked.max_age.map(|age| age.as_secs()).unwrap_or_default();
        if !self.trust.has_quorum() {
            let is_fresh = self.last_time.map_or(self.asked.max_age.is_none(), |at| self.asked.is_fresh(at));
            let is_early = self.last_time.is_some_and(|at| at > self.asked.now);
            if !is_fresh && is_early {
                let why = "its last event is of a time that is yet to come, by its own clock: that does not show that it is fresh";
                self.report.find(Fault::RolledBack, why);
            } else if !is_fresh {
                self.report.find(
                    Fault::RolledBack,
                    format!("its last event is older than {age} s, by its own clock: it stands still, or its end was cut off"),
                );
            }
            return;
        }
        let Some(witnessed) = &self.witnessed else {
            return self.report.find(
                Fault::RolledBack,
                "no head of it has the signatures of as many witnesses as must sign",
            );
        };
        if self.fresh.is_none() {
            let what = format!("no head of it has the signatures of as many witnesses as must sign, from the last {age} s");
            return self.report.find(Fault::RolledBack, what);
        }
        let anchors = witnessed.by.iter().map(|(name, at)| Anchor {
            what: format!("witness {name}"),
            size: witnessed.size,
            at: Some(*at),
        });
        self.report.anchors.extend(anchors);
    }
}

/// What a head over so many events is.
pub(super) fn too_large(size: u64) -> String {
    format!("its head is over {size} events, which are more than any log has")
}

fn report_at(report: &mut Report, seq: u64, why: String) {
    report.find(Fault::Tampered, format!("event {seq}: {why}"));
}

impl NodeStream {
    fn fill(&mut self, source: &(impl LogSource + ?Sized)) -> Result<(), SourceError> {
        if self.page.is_empty() && !self.is_over {
            self.page = source.nodes(self.next, NODES)?.into();
            self.is_over = self.page.is_empty();
        }
        Ok(())
    }

    /// The next node's hash, if it is there.
    fn peek(&mut self, source: &(impl LogSource + ?Sized)) -> Result<Option<Hash>, SourceError> {
        self.fill(source)?;
        let next = self.next;
        Ok(self.page.front().filter(|(index, _)| *index == next).map(|(_, hash)| *hash))
    }

    /// The number of the next node that is there, whichever it is.
    fn peek_number(&mut self, source: &(impl LogSource + ?Sized)) -> Result<Option<u64>, SourceError> {
        self.fill(source)?;
        Ok(self.page.front().map(|(index, _)| *index))
    }

    /// Goes on to the one after.
    fn take(&mut self, source: &(impl LogSource + ?Sized)) -> Result<Option<Hash>, SourceError> {
        let found = self.peek(source)?;
        while self.page.front().is_some_and(|(index, _)| *index <= self.next) {
            self.page.pop_front();
        }
        self.next += 1;
        Ok(found)
    }
}

impl HeadStream {
    /// The next head that is filed under at most so many events.
    fn upto(&mut self, source: &(impl LogSource + ?Sized), size: u64) -> Result<Option<KeptHead>, SourceError> {
        if self.page.is_empty() && !self.is_over {
            self.page = source.heads(self.above, HEADS)?.into();
            self.is_over = self.page.is_empty();
            self.above = self.page.back().map(|head| head.size).or(self.above);
        }
        let is_due = self.page.front().is_some_and(|head| head.size <= size);
        Ok(if is_due { self.page.pop_front() } else { None })
    }
}
