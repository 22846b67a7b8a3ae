//! Insist: a transition whose answer was lost is repeated until the store says what became of it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Applied, Op, StoreError};

/// How long whoever has no better measure repeats.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The first pause before a repetition; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Runs a transition, and repeats it under the same operation id for about as long as `patience` while the store does not say what became of it.
/// The transition is safe to repeat; what must not be repeated is the request it tells of.
///
/// # Errors
/// What `run` answered last; [`StoreError::Ambiguous`] if it may have taken place.
pub async fn insist<T, F>(patience: Duration, op: Op, run: impl Fn(Op) -> F) -> Result<Applied<T>, StoreError>
where
    F: Future<Output = Result<Applied<T>, StoreError>>,
{
    let begun = Instant::now();
    let mut pause = FIRST_PAUSE;
    // Once it may have taken place, "this repetition did not" is no answer to whether it did.
    let mut doubt = None;
    loop {
        match run(op.clone()).await {
            Err(error @ (StoreError::Ambiguous { .. } | StoreError::Unavailable(_))) if begun.elapsed() < patience => {
                if matches!(error, StoreError::Ambiguous { .. }) {
                    doubt = Some(error);
                }
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            other => {
                return match (other, doubt) {
                    (Err(StoreError::Unavailable(_)), Some(doubt)) => Err(doubt),
                    (other, _) => other,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use super::*;
    use crate::audit::Actor;
    use crate::domain::id::OperationId;

    fn op() -> Op {
        Op {
            id: OperationId::from_bytes([7; 16]),
            actor: Actor::system("test"),
            request: None,
        }
    }

    /// What becomes of an operation that is answered with these, and how many times it was run; always as the same operation.
    async fn run(patience: Duration, answers: Vec<Result<u32, StoreError>>) -> (Result<u32, StoreError>, usize) {
        let op = op();
        let (answers, seen) = (Mutex::new(VecDeque::from(answers)), Mutex::new(0));
        let done = insist(patience, op.clone(), async |again| {
            assert_eq!(again.id, op.id);
            *seen.lock().unwrap() += 1;
            let answer = answers.lock().unwrap().pop_front().unwrap();
            answer.map(|value| Applied {
                value,
                seq: 0,
                replayed: false,
            })
        });
        let done = done.await.map(|applied| applied.value);
        (done, seen.into_inner().unwrap())
    }

    fn lost() -> StoreError {
        StoreError::Ambiguous {
            op: op().id,
            why: "the connection broke".to_owned(),
        }
    }

    #[tokio::test]
    async fn what_is_in_doubt_or_unavailable_is_repeated_and_a_rejection_is_not() {
        let away = || StoreError::Unavailable("locked".to_owned());
        assert_eq!(run(Duration::from_secs(5), vec![Err(lost()), Err(away()), Ok(7)]).await, (Ok(7), 3));
        let refused = StoreError::Rejected(crate::store::Rejection::NotFound);
        assert_eq!(run(Duration::from_secs(5), vec![Err(refused.clone())]).await, (Err(refused), 1));
    }

    #[tokio::test]
    async fn doubt_is_not_forgotten_over_a_repetition_that_did_not_take_place() {
        let patience = Duration::from_millis(1);
        let away = || StoreError::Unavailable("locked".to_owned());
        let (answer, times) = run(patience, vec![Err(lost()), Err(away())]).await;
        assert!(
            matches!(answer, Err(StoreError::Ambiguous { .. })) && times == 2,
            "{answer:?} after {times}"
        );
        let (answer, _) = run(patience, vec![Err(away()), Err(away())]).await;
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
}
