//! Who holds the connections that are open, and who gives one up for a newcomer when few are left.
//!
//! Whoever is to stop everything must not find the door shut by those who only stand in it. So newcomers get in, and what nobody known uses goes first, of
//! the address that has the most of it, and of that what is oldest. An address that has all it may have makes the room itself, of what
//! nobody known uses; only where all of it is known is its newcomer closed.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Limits, Source};

/// So many connections of one address, and fewer, say nothing against it.
const FAIR_SHARE: usize = 8;

/// Who is at the other end, as far as a request has shown by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shown {
    /// Nobody has shown who they are.
    Stranger,
    /// A client by its secret, a bearer by a credential of ours, or a backend by its signature.
    Known,
    /// A client that may stop everything. Its connection is given up for nobody.
    Guard,
}

/// The connections of one listener.
#[derive(Debug)]
pub struct Connections {
    /// From so many on, a newcomer is another one's end. A few less than all places, so that the newcomer need not wait for that.
    few_left: usize,
    per_address: usize,
    /// While strangers have no more than this, the room is made by those who are known.
    strangers: usize,
    /// For how long whoever has shown who they are is known.
    known_for: Duration,
    open: Mutex<Open>,
    /// Bytes of answers that wait to be taken, on all of them.
    untaken: AtomicUsize,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    seats: BTreeMap<u64, Arc<State>>,
}

#[derive(Debug)]
struct State {
    source: Source,
    shown: Mutex<(Shown, Instant)>,
    requests: Mutex<Requests>,
    /// Its place is wanted for another connection.
    leave: CancellationToken,
    /// It holds too much memory.
    heavy: CancellationToken,
}

/// The requests of a connection whose answers were not taken yet.
#[derive(Debug, Default)]
struct Requests {
    next: u64,
    begun: BTreeMap<u64, Instant>,
    /// Bytes of answers that wait to be taken.
    untaken: usize,
}

/// How much the answers of one connection may hold until they are taken, in bytes.
const UNTAKEN: usize = 8 * 1024 * 1024;
/// The same of all connections together; past it none may hold more than [`UNTAKEN_SHARE`].
const UNTAKEN_OF_ALL: usize = 128 * 1024 * 1024;
/// What each may hold nevertheless.
const UNTAKEN_SHARE: usize = 256 * 1024;
/// How long a request may take until its answer is taken; longer than any wait that is granted and a body before it.
const LONGEST: Duration = Duration::from_secs(90);

/// The seat of one open connection, given back when it is dropped.
#[derive(Debug)]
pub struct Seat {
    all: Arc<Connections>,
    at: u64,
    state: Arc<State>,
}

/// A request that is being worked on, or whose answer is not taken yet; its connection is not idle until this is dropped.
#[derive(Debug)]
pub struct Busy {
    all: Arc<Connections>,
    state: Arc<State>,
    at: u64,
    holds: usize,
}

impl Connections {
    /// None, with these limits.
    #[must_use]
    pub fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            few_left: limits.connections - (limits.connections / 16).max(1),
            per_address: limits.connections_per_address,
            strangers: (limits.connections / 8).max(1),
            known_for: limits.stranger_timeout,
            open: Mutex::default(),
            untaken: AtomicUsize::new(0),
        })
    }

    /// A seat for a connection from there; `None` if its address has all it may have and all of it is known. Where few are left somebody else is asked to
    /// leave.
    pub fn enter(self: &Arc<Self>, source: Source, now: Instant) -> Option<Seat> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs = || open.staying().filter(|seat| seat.source == source);
        if theirs().count() >= self.per_address {
            let is_stranger = |seat: &&Arc<State>| self.standing(seat, now) == Shown::Stranger;
            theirs().find(is_stranger)?.leave.cancel();
        } else if let Some(gives_way) = self.gives_way(&open, now) {
            gives_way.leave.cancel();
        }
        let at = open.next;
        open.next += 1;
        let state = Arc::new(State {
            source,
            shown: Mutex::new((Shown::Stranger, now)),
            requests: Mutex::default(),
            leave: CancellationToken::new(),
            heavy: CancellationToken::new(),
        });
        open.seats.insert(at, state.clone());
        drop(open);
        let all = self.clone();
        Some(Seat { all, at, state })
    }

    /// Whose place a newcomer takes, if there is no room beside all of them.
    fn gives_way(&self, open: &Open, now: Instant) -> Option<Arc<State>> {
        if open.staying().count() < self.few_left {
            return None;
        }
        let of = |standing| -> Vec<&Arc<State>> { open.staying().filter(|seat| self.standing(seat, now) == standing).collect() };
        let (strangers, known) = (of(Shown::Stranger), of(Shown::Known));
        let from = if strangers.len() > self.strangers || known.is_empty() {
            strangers
        } else {
            known
        };
        let mut per_source = HashMap::<Source, usize>::new();
        for seat in &from {
            *per_source.entry(seat.source).or_default() += 1;
        }
        let most = per_source.values().copied().max()?;
        let is_theirs = |seat: &&&Arc<State>| most < FAIR_SHARE || per_source.get(&seat.source) == Some(&most);
        // Oldest first, as they were entered.
        let theirs: Vec<&Arc<State>> = from.iter().filter(is_theirs).copied().collect();
        // Of strangers a request that has begun says nothing: it costs whoever holds the door a few bytes, and the one who has just come has sent
        // nothing yet.
        let is_idle = |seat: &&&Arc<State>| self.standing(seat, now) == Shown::Known && seat.requests().begun.is_empty();
        let gives_way = theirs.iter().find(is_idle).or(theirs.first());
        gives_way.map(|seat| Arc::clone(seat))
    }

    fn standing(&self, seat: &State, now: Instant) -> Shown {
        let (standing, at) = *seat.shown();
        if now < at + self.known_for { standing } else { Shown::Stranger }
    }
}

impl Open {
    /// Those who were not asked to leave, oldest first.
    fn staying(&self) -> impl Iterator<Item = &Arc<State>> {
        self.seats.values().filter(|seat| !seat.leave.is_cancelled())
    }
}

impl State {
    fn shown(&self) -> MutexGuard<'_, (Shown, Instant)> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// A request has shown who it is from.
    pub fn shows(&self, standing: Shown, now: Instant) {
        *self.state.shown() = (standing, now);
    }

    /// How it stands now.
    #[must_use]
    pub fn standing(&self, now: Instant) -> Shown {
        self.all.standing(&self.state, now)
    }

    /// Begins a request.
    #[must_use]
    pub fn begin(&self) -> Busy {
        let mut requests = self.state.requests();
        let at = requests.next;
        requests.next += 1;
        requests.begun.insert(at, Instant::now());
        drop(requests);
        Busy {
            all: self.all.clone(),
            state: self.state.clone(),
            at,
            holds: 0,
        }
    }

    /// Returns once its answers hold too much memory, or one of them is not taken.
    pub async fn is_a_burden(&self) {
        tokio::select! {
            () = self.state.heavy.cancelled() => {}
            () = self.is_stuck() => {}
        }
    }

    async fn is_stuck(&self) {
        loop {
            let now = Instant::now();
            let oldest = self.state.requests().begun.values().next().copied();
            let until = oldest.unwrap_or(now) + LONGEST;
            if until <= now {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    /// Returns once its place is wanted for somebody else.
    pub async fn is_wanted(&self) {
        self.state.leave.cancelled().await;
    }

    /// Returns once nobody has shown who they are for as long as a stranger may stay.
    pub async fn is_outstayed(&self) {
        loop {
            let until = self.state.shown().1 + self.all.known_for;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut open = self.all.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.seats.remove(&self.at);
    }
}

impl Busy {
    /// Its answer holds so many bytes until it is taken. A connection that holds too much is ended.
    pub fn answers(&mut self, bytes: usize) {
        self.holds += bytes;
        let all = self.all.untaken.fetch_add(bytes, Ordering::AcqRel) + bytes;
        let mut requests = self.state.requests();
        requests.untaken += bytes;
        let own = requests.untaken;
        if own > UNTAKEN || (all > UNTAKEN_OF_ALL && own > UNTAKEN_SHARE) {
            self.state.heavy.cancel();
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.all.untaken.fetch_sub(self.holds, Ordering::AcqRel);
        let mut requests = self.state.requests();
        requests.begun.remove(&self.at);
        requests.untaken = requests.untaken.saturating_sub(self.holds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn room_for(connections: usize) -> Arc<Connections> {
        Connections::new(&Limits {
            connections,
            connections_per_address: connections,
            stranger_timeout: MINUTE,
            ..Limits::default()
        })
    }

    fn from(n: u8) -> Source {
        Source::of(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, n)))
    }

    fn leaves(seat: &Seat) -> bool {
        seat.state.leave.is_cancelled()
    }

    /// As many as there are before somebody has to leave, from these sources in turn.
    fn filled(all: &Arc<Connections>, sources: &[u8], now: Instant) -> Vec<Seat> {
        let seats = (0..all.few_left).map(|at| all.enter(from(sources[at % sources.len()]), now).unwrap());
        let seats: Vec<Seat> = seats.collect();
        assert!(!seats.iter().any(leaves));
        seats
    }

    #[test]
    fn a_newcomer_takes_the_place_of_the_oldest_of_the_address_that_has_the_most() {
        let (all, now) = (room_for(32), Instant::now());
        let mut seats = filled(&all, &[1, 2, 2], now);
        let newcomer = all.enter(from(3), now).unwrap();
        assert!(leaves(&seats[1]));
        seats.remove(1);
        assert!(!seats.iter().any(leaves) && !leaves(&newcomer));
        let another = all.enter(from(2), now).unwrap();
        assert!(leaves(&seats[1]) && !leaves(&another), "its own address has the most");
    }

    #[test]
    fn of_those_who_are_known_the_idle_ones_go_first() {
        let (all, now) = (room_for(32), Instant::now());
        let seats = filled(&all, &[1], now);
        for seat in &seats {
            seat.shows(Shown::Known, now);
        }
        let _busy: Vec<Busy> = seats[..20].iter().map(Seat::begin).collect();
        let newcomer = all.enter(from(2), now).unwrap();
        assert!(leaves(&seats[20]) && !leaves(&newcomer));
    }

    /// Half a request costs an attacker a few bytes, and an honest newcomer has sent nothing yet.
    #[test]
    fn whoever_has_just_come_does_not_give_way_to_the_next_while_older_strangers_are_in_the_middle_of_a_request() {
        let (all, now) = (room_for(64), Instant::now());
        let addresses: Vec<u8> = (1..=60).collect();
        let seats = filled(&all, &addresses, now);
        let _halves: Vec<Busy> = seats.iter().map(Seat::begin).collect();
        let honest = all.enter(from(200), now).unwrap();
        let flood: Vec<Seat> = (0..40).map(|n| all.enter(from(100 + n), now).unwrap()).collect();
        assert!(!leaves(&honest));
        assert_eq!(seats.iter().filter(|seat| leaves(seat)).count(), 41);
        assert!(!flood.iter().any(leaves));
        let second = all.enter(from(200), now).unwrap();
        assert!(!leaves(&honest) && !leaves(&second), "two are not too many");
    }

    #[test]
    fn strangers_go_before_those_who_are_known_and_busy_ones_only_when_none_is_idle() {
        let (all, now) = (room_for(32), Instant::now());
        let seats = filled(&all, &[1], now);
        for seat in &seats[..20] {
            seat.shows(Shown::Known, now);
        }
        let _busy: Vec<Busy> = seats[20..].iter().map(Seat::begin).collect();
        let newcomer = all.enter(from(1), now).unwrap();
        assert!(leaves(&newcomer) || leaves(&seats[20]));
        assert!(!seats[..20].iter().any(leaves));
    }

    #[test]
    fn strangers_always_have_some_places_and_whoever_may_stop_everything_keeps_its_own() {
        let (all, now) = (room_for(32), Instant::now());
        let seats = filled(&all, &[1], now);
        for seat in &seats[1..] {
            seat.shows(Shown::Known, now);
        }
        seats[0].shows(Shown::Guard, now);
        let newcomers: Vec<Seat> = (0..8).map(|_| all.enter(from(2), now).unwrap()).collect();
        assert_eq!(seats.iter().filter(|seat| leaves(seat)).count(), all.strangers + 1);
        assert!(!leaves(&seats[0]));
        assert_eq!(newcomers.iter().filter(|seat| !leaves(seat)).count(), all.strangers + 1);
    }

    #[test]
    fn answers_that_are_not_taken_hold_no_more_than_a_bound_on_one_connection_and_on_all() {
        let (all, now) = (room_for(64), Instant::now());
        let seats: Vec<Seat> = (0..32).map(|_| all.enter(from(1), now).unwrap()).collect();
        let is_heavy = |seat: &Seat| seat.state.heavy.is_cancelled();
        let answer = |seat: &Seat, bytes| {
            let mut busy = seat.begin();
            busy.answers(bytes);
            busy
        };
        for _ in 0..100 {
            drop(answer(&seats[0], UNTAKEN));
        }
        assert!(!is_heavy(&seats[0]), "what was taken is not held");
        let mut held: Vec<Busy> = seats[..16].iter().map(|seat| answer(seat, UNTAKEN)).collect();
        assert!(!seats.iter().any(is_heavy));
        held.push(answer(&seats[0], 1));
        assert!(is_heavy(&seats[0]));
        held.push(answer(&seats[20], UNTAKEN_SHARE));
        assert!(!is_heavy(&seats[20]), "a small share is left to each");
        held.push(answer(&seats[21], UNTAKEN_SHARE + 1));
        assert!(is_heavy(&seats[21]));
        drop(held);
        assert_eq!(all.untaken.load(Ordering::Acquire), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_whose_answer_is_never_taken_ends_its_connection() {
        let all = room_for(32);
        let seat = all.enter(from(1), Instant::now()).unwrap();
        tokio::time::sleep(LONGEST).await;
        let begun = Instant::now();
        let busy = seat.begin();
        seat.is_a_burden().await;
        assert_eq!(begun.elapsed(), LONGEST);
        drop(busy);
        assert!(tokio::time::timeout(LONGEST * 3, seat.is_a_burden()).await.is_err());
    }

    #[test]
    fn whoever_was_known_is_a_stranger_again_after_a_while() {
        let (all, now) = (room_for(32), Instant::now());
        let seat = all.enter(from(1), now).unwrap();
        seat.shows(Shown::Guard, now);
        let before = MINUTE - Duration::from_millis(1);
        assert_eq!(seat.standing(now + before), Shown::Guard);
        assert_eq!(seat.standing(now + MINUTE), Shown::Stranger);
    }

    #[test]
    fn one_address_has_no_more_than_it_may_and_a_seat_is_given_back() {
        let now = Instant::now();
        let all = Connections::new(&Limits {
            connections: 32,
            connections_per_address: 2,
            ..Limits::default()
        });
        let seats = [all.enter(from(1), now).unwrap(), all.enter(from(1), now).unwrap()];
        seats[0].shows(Shown::Known, now);
        let _busy = seats[1].begin();
        let elsewhere = all.enter(from(2), now).unwrap();
        let newcomer = all.enter(from(1), now).unwrap();
        assert!(leaves(&seats[1]) && !leaves(&seats[0]) && !leaves(&elsewhere));
        let next = all.enter(from(1), now).unwrap();
        assert!(leaves(&newcomer) && !leaves(&next), "the oldest that is nobody's");
        next.shows(Shown::Known, now);
        assert!(all.enter(from(1), now).is_none());
        drop((seats, newcomer, next));
        assert!(all.enter(from(1), now).is_some());
        drop(elsewhere);
        assert!(all.open.lock().unwrap().seats.is_empty());
    }
}
