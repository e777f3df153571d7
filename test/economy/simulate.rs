//! The whole table of the pruning simulation: 200 conversations, eleven policies, five layouts.

use fia::simulate::pruning::{RUNS, simulate};
use pretty_assertions::assert_eq;

/// Cost against none, and tokens written by the first and second request after a pause; the layouts with pauses first.
const TABLE: &str = "\
none | 2,267,022; 107,518 / 1,592 | 1,836,022; 112,949 / 1,560 | 4,075,775; 114,826 / 1,547 | 1,415,074 | 2,311,064
per request | +14.2%; 75,292 / 76,470 | +5.2%; 78,160 / 81,128 | +24.1%; 79,204 / 85,138 | +0.0% | +0.0%
sticky | -25.2%; 75,561 / 1,592 | -19.5%; 78,160 / 1,560 | -28.7%; 79,689 / 1,547 | +0.0% | +0.0%
low | -47.5%; 47,138 / 1,592 | -38.4%; 44,522 / 1,560 | -52.3%; 50,666 / 1,547 | +0.0% | +0.0%
warm | -45.5%; 48,595 / 2,007 | -42.3%; 49,285 / 2,066 | -51.0%; 51,102 / 1,971 | -37.2% | -45.6%
adaptive | -46.3%; 47,956 / 1,982 | -43.5%; 49,224 / 1,760 | -51.2%; 50,757 / 2,038 | -38.8% | -46.6%
rotate > 90k | -42.8%; 53,151 / 1,592 | -34.9%; 50,789 / 1,560 | -49.8%; 53,840 / 1,547 | +0.0% | +0.0%
sticky, rotate > 90k | -45.4%; 49,838 / 1,592 | -38.0%; 45,272 / 1,560 | -52.3%; 50,748 / 1,547 | +0.0% | +0.0%
adaptive, rotate > 90k | -55.4%; 35,985 / 1,776 | -50.8%; 35,035 / 1,609 | -62.2%; 37,426 / 1,935 | -38.8% | -46.6%
rotate > S | -63.3%; 27,100 / 1,592 | -48.2%; 27,100 / 1,560 | -71.6%; 27,114 / 1,547 | +0.0% | +0.0%
adaptive, rotate > S | -62.4%; 27,100 / 1,592 | -54.3%; 27,100 / 1,560 | -71.5%; 27,120 / 1,547 | -38.8% | -46.6%";

#[test]
fn r12_2_the_whole_pruning_table() {
    let simulation = simulate(0, RUNS);
    let text = simulation.table.text();
    let lines = text.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        cells.join(" | ")
    });
    assert_eq!(lines.collect::<Vec<_>>().join("\n"), TABLE);
    assert_eq!(simulation.rows.len(), 55);
    let without_pause = simulation.rows.iter().find(|row| row["layout"] == "1 x 150").unwrap();
    assert!(without_pause["first_write"].is_null());
}
