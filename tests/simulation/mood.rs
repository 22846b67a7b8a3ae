//! How a schedule is inclined.

use super::chance::Dice;

/// How a schedule is inclined.
#[derive(Debug, Clone, Copy)]
pub struct Mood {
    /// Of a hundred calls, how many go wrong at the store.
    pub store: u32,
    /// Of a hundred requests, how many go wrong at the backend.
    pub backend: u32,
    /// Of a hundred looks at the backend, how many show nothing.
    pub looks: u32,
    /// What happens more often than other things.
    pub theme: Theme,
    /// Whether amounts are such that people must approve.
    pub people: bool,
    /// Whether clocks disagree and move.
    pub clocks: bool,
    /// Whether processes die.
    pub deaths: bool,
    /// How often a confused process calls the store, against a hundred other things.
    pub confusion: u32,
    /// How far a first journey has come undisturbed when the schedule begins.
    pub begun: Begun,
    /// Whether two drafts for one charge are brought to their credentials before either is executed.
    pub pairs: bool,
    /// Whether drafts and cards live for minutes only.
    pub short_lived: bool,
}

/// What a schedule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// Nothing above all.
    All,
    /// People take back what they allowed, and throw the kill switch.
    TakenBack,
    /// Deadlines come close, and answers are slow.
    Late,
    /// The backend tells by itself what it did.
    Told,
}

/// How far a journey has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Begun {
    /// Nothing is proposed yet.
    Not,
    /// A card waits for people, unless the policy has answered by itself.
    Proposed,
    /// It is approved.
    Approved,
    /// There is a credential.
    Issued,
    /// The request is about to reach the backend.
    Sent,
    /// The request has left, and its answer does not come.
    Lost,
    /// So it was, and the same is about to reach the backend again.
    Again,
}

impl Mood {
    /// One of those that a seed can lead to.
    pub fn draw(dice: &mut Dice) -> Self {
        Self {
            store: dice.pick(&[0, 0, 3, 10]),
            backend: dice.pick(&[0, 30, 60, 80]),
            looks: dice.pick(&[0, 5, 10, 40]),
            theme: dice.weighted(&[(3, Theme::All), (3, Theme::TakenBack), (3, Theme::Late), (1, Theme::Told)]),
            people: dice.chance(35),
            clocks: dice.chance(60),
            deaths: dice.chance(50),
            confusion: dice.pick(&[0, 0, 12, 50]),
            begun: dice.weighted(&[
                (40, Begun::Not),
                (8, Begun::Proposed),
                (8, Begun::Approved),
                (16, Begun::Issued),
                (14, Begun::Sent),
                (14, Begun::Lost),
                (10, Begun::Again),
            ]),
            pairs: dice.chance(25),
            short_lived: dice.chance(20),
        }
    }
}
