//! Tables, and arrays that are 0 from the positions of a table on.

use super::model::{Range, Sharding, Type, Value};
use super::program::{MOST_ELEMENTS, Writer};
use shardc::dtype::DType;

/// Most numbers of a table.
const MOST_NUMBERS: u64 = 24;

impl Writer<'_> {
    /// A table of one or two dims. Mostly also an array that is 0 along another dim from the numbers of the table on, and
    /// often a move of this array.
    pub(crate) fn statement_table(&mut self) {
        let mut dims = self.some_dims(1);
        dims.truncate(2);
        let count: u64 = dims.iter().map(|dim| self.dims.list[*dim].size).product();
        if self.inside || self.indent > 0 || count > MOST_NUMBERS {
            return self.statement_expression();
        }
        let along: Vec<usize> = (0..self.dims.list.len()).filter(|dim| !dims.contains(dim)).collect();
        let along = (!along.is_empty()).then(|| self.choices.one(&along));
        let length = along.map_or(4, |dim| self.dims.list[dim].size);
        let (numbers, most) = match self.choices.below(3) {
            0 | 1 => {
                // Some are below 0 or above the length.
                let most = usize::try_from(length).expect("a small dim") + 3;
                let numbers: Vec<u64> = (0..count).map(|_| self.choices.below(most) as u64).collect();
                let texts: Vec<String> = numbers
                    .iter()
                    .map(|number| if *number > length + 1 { "-1".to_owned() } else { number.to_string() })
                    .collect();
                (format!("table({})", texts.join(", ")), length + 1)
            }
            _ => {
                let power = self.choices.one(&["0", "0.8", "1.5"]);
                let seed = self.choices.one(&["", ", 1"]);
                (format!("zipf({power}, {length}{seed})"), length)
            }
        };
        let name = self.name();
        let names: Vec<&str> = dims.iter().map(|dim| self.dims.list[*dim].name.as_str()).collect();
        self.line(&format!("{name}[{}] = {numbers}", names.join(", ")));
        let range = Range { most: most as f64, exact: true };
        let kind = Type { dtype: DType::I32, dims: dims.clone(), layout: None, open: None, range };
        self.values.push(Value { name: name.clone(), kind, computed: true });
        let Some(along) = along.filter(|_| self.choices.chance(7, 8)) else { return };
        // The dims of the array: those of the table, its own, and some others, in any order.
        let mut all = dims;
        all.push(along);
        let other = self.choices.below(self.dims.list.len());
        if !all.contains(&other) && self.choices.chance(1, 2) {
            all.push(other);
        }
        if all.iter().map(|dim| self.dims.list[*dim].size).product::<u64>() > 4 * MOST_ELEMENTS {
            return;
        }
        for place in (1..all.len()).rev() {
            let other = self.choices.below(place + 1);
            all.swap(place, other);
        }
        let dtype = self.choices.one(&[DType::F32, DType::Bf16, DType::I32, DType::I8]);
        let (text, kind) = self.fresh(dtype, &all);
        let condition = format!("iota_{} < {name}", self.dims.list[along].name);
        self.bound_in(&format!("where({condition}, {text}, 0)"), kind.clone());
        if self.choices.chance(3, 4) {
            let last = self.values.last().expect("it was bound").name.clone();
            self.bound_in(&last, kind);
        }
    }

    /// Binds a value in a random layout.
    fn bound_in(&mut self, text: &str, kind: Type) {
        let axes = self.sharding(&kind.dims, &[]);
        let fixed = axes.iter().any(|axes| !axes.is_empty());
        let kind = Type { layout: Some(Sharding { axes, open: None }), ..kind };
        let brackets = self.brackets_of(&kind).unwrap_or_default();
        // Brackets without axes leave the layout open.
        let layout = kind.layout.clone().filter(|_| fixed);
        let name = self.bind_new(Type { layout, ..kind }, true);
        self.line(&format!("{name}{brackets} = {text}"));
    }
}
