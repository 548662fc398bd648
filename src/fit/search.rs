//! The least of a function of a few positive numbers, by steps along each of them that become smaller.
//!
//! The losses of fits have kinks where another protocol or another tile becomes the fastest, so there are no derivatives
//! to follow; and they have few arguments, so none are needed.

/// The first steps are to e times and 1/e of each number; below the last they are not worth a try.
const FIRST_STEP: f64 = 1.0;
const LAST_STEP: f64 = 0.004;

/// From a start to where no step along one number, nor a repetition of the last round's steps, makes the loss less.
///
/// - `loss`: of positive numbers; those that cannot be have an infinite one.
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
            // What has gone well once may go well again.
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

/// The best that is reached from any of several starts.
pub(super) fn best_of(starts: &[Vec<f64>], loss: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let found = starts.iter().map(|start| descend(start, &loss));
    found.min_by(|one, other| one.0.total_cmp(&other.0)).map_or_else(Vec::new, |(_, at)| at)
}

/// What is to be made small: mostly the mean of the errors, so that a few wild measurements count little, and somewhat
/// their squares, so that none is far off without need. Of ratios, predicted to measured.
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
