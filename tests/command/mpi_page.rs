//! The tables of `docs/mpi.md`, which a machine measured: ratios follow from the times, and the text from the ratios.

/// A row of a table.
struct Row {
    collective: String,
    bytes: String,
    /// Times in seconds: MPI's own, predicted, measured.
    times: [f64; 3],
    /// Measured over predicted, and over MPI's.
    ratios: [f64; 2],
}

/// Parses `3.98 us`.
fn seconds(text: &str) -> f64 {
    let (number, unit) = text.split_once(' ').expect("a unit");
    let unit = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        other => panic!("{other}"),
    };
    number.parse::<f64>().expect("a number") * unit
}

/// The rows for 2 and for 8 ranks.
fn tables() -> [Vec<Row>; 2] {
    let page = std::fs::read_to_string("docs/mpi.md").expect("the page");
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [collective, bytes, own, _, predicted, measured, to_predicted, to_own] = cells.try_into().ok()?;
        let bytes = Some(bytes).filter(|bytes| bytes.ends_with('B'))?.to_owned();
        let ratios = [to_predicted, to_own].map(|ratio| ratio.parse().expect("a ratio"));
        let times = [own, predicted, measured].map(seconds);
        Some(Row { collective: collective.to_owned(), bytes, times, ratios })
    };
    let parts = page.split_once("With 8 ranks, four per core,").expect("two tables");
    [parts.0, parts.1].map(|part| part.lines().filter_map(row).collect())
}

#[test]
fn ratios_follow_from_the_times() {
    for row in tables().iter().flatten() {
        let [own, predicted, measured] = row.times;
        for (stated, ratio) in row.ratios.into_iter().zip([measured / predicted, measured / own]) {
            // Times are rounded to three or four digits.
            assert!(
                (stated - ratio).abs() < 0.006 + 0.005 * ratio,
                "{} {}: {stated}, {ratio}",
                row.collective,
                row.bytes
            );
        }
    }
}

/// Least and largest of some ratios.
fn range(ratios: impl Iterator<Item = f64>) -> (f64, f64) {
    ratios.fold((f64::INFINITY, 0.0), |(low, high), ratio| (low.min(ratio), high.max(ratio)))
}

#[test]
fn the_text_follows_from_the_ratios() {
    let page = std::fs::read_to_string("docs/mpi.md").expect("the page").replace('\n', " ");
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let [two, eight] = tables();
    assert_eq!((two.len(), eight.len()), (12, 36));
    let to_predicted =
        |rows: &[Row], bytes: &str| range(rows.iter().filter(|row| row.bytes == bytes).map(|row| row.ratios[0]));
    let (low, high) = to_predicted(&two, "8.19 kB");
    assert!(
        page.contains(&format!("small collectives take {low:.1} to {high:.1} times the prediction")),
        "{low} {high}"
    );
    let (low, high) = to_predicted(&eight, "8.19 kB");
    assert!(page.contains(&format!("with 8 ranks, {low:.1} to {high:.0} times")), "{low} {high}");
    let is_sum =
        |row: &&Row| ["ReduceScatter", "AllReduce"].contains(&row.collective.as_str()) && row.bytes == "262 kB";
    let (low, high) = range(eight.iter().filter(is_sum).map(|row| row.ratios[0]));
    let sums = range(two.iter().filter(is_sum).map(|row| row.ratios[0]));
    let (least, most) = (format!("{:.1}", sums.0), format!("{:.1}", sums.1));
    assert_eq!(least, most);
    let text = format!("take {low:.1} to {high:.0} times the prediction; over 2 ranks {least} times");
    assert!(page.contains(&text), "{text}");
    let (low, _) = range(two.iter().filter(|row| row.bytes != "8.19 kB").map(|row| row.ratios[0]));
    assert!(page.contains(&format!("up to {:.1} times too long", 1.0 / low)), "{low}");
    let slower = two.iter().chain(&eight).filter(|row| row.ratios[1] < 1.0).count();
    let (_, high) = range(two.iter().chain(&eight).map(|row| row.ratios[1]));
    assert!(slower == 0 && page.contains(&format!("in all rows, by up to {high:.0} times")), "{slower} {high}");
    let large: Vec<&Row> = eight.iter().filter(|row| row.bytes == "4.19 MB").collect();
    let close = large.iter().filter(|row| (0.5..=2.0).contains(&row.ratios[0])).count();
    assert!(page.contains(&format!("{close} of {} predictions are within a factor of 2", large.len())), "{close}");
}
