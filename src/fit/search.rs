//! Minimizes a function of a few positive numbers by coordinate steps of decreasing size.
//!
//! The losses have kinks where another protocol or another tile becomes the fastest, so derivatives are not useful.
//! With few arguments, none are needed.

/// Size of the first step: each number is multiplied by e or 1/e. Steps below the last size are not tried.
const FIRST_STEP: f64 = 1.0;
const LAST_STEP: f64 = 0.004;

/// Searches from a start until no step along one number, and no repetition of the last round's steps, reduces the loss.
///
/// - `loss`: a function of positive numbers; infinite for invalid arguments.
pub(super) fn descend(start: &[f64], loss: impl Fn(&[f64]) -> f64) -> (f64, Vec<f64>) {
    let mut at = start.to_vec();
    let mut least = loss(&at);
    let mut step = FIRST_STEP;
    while step > LAST_STEP {
        let before = (at.clone(), least);
        for place in 0..at.len() {
            for factor in [step.exp(), (-step).exp()] {
                let mut tried = at.clone();
                tried[place] *= factor;
                let found = loss(&tried);
                if found < least {
                    (at, least) = (tried, found);
                    break;
                }
            }
        }
        if least < before.1 {
            // Repeats the steps of the last round.
            let tried: Vec<f64> = at.iter().zip(&before.0).map(|(now, then)| now * (now / then)).collect();
            let found = loss(&tried);
            if found < least {
                (at, least) = (tried, found);
            }
        } else {
            step /= 2.0;
        }
    }
    (least, at)
}

/// The best result from several starts.
pub(super) fn best_of(starts: &[Vec<f64>], loss: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let found = starts.iter().map(|start| descend(start, &loss));
    found.min_by(|one, other| one.0.total_cmp(&other.0)).map_or_else(Vec::new, |(_, at)| at)
}

/// The loss: mostly the mean of the absolute errors, so that outliers have little influence, plus a share of their
/// squares, to avoid large errors. Takes ratios of predicted to measured.
pub(super) fn loss_of(ratios: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0u32);
    for ratio in ratios {
        let error = ratio.ln().abs();
        sum += error + 0.3 * error * error;
        count += 1;
    }
    if sum.is_nan() { f64::INFINITY } else { sum / f64::from(count.max(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_a_bent_valley_is_found() {
        let loss = |at: &[f64]| (at[0].ln() - 1.0).abs() + (at[0].ln() + at[1].ln() - 3.0).abs();
        let (least, at) = descend(&[1.0, 1.0], loss);
        assert!(least < 0.02, "{least} at {at:?}");
    }
}
