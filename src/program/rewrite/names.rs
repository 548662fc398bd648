//! Names: `C[I] = B` of a `B[I]` gives the array another name, as its layout stays.
//!
//! Values that read the array under that name read the array itself, so that a further name changes neither what is
//! fused nor what is moved.

use super::{Program, Using, ValueId, Wanted};
use crate::layout::Sharding;
use crate::program::Definition;

impl Program {
    /// The array that a move leaves as it is: it has the same dims and layout. `None` if the layout of either is open,
    /// or the text asks for a way to move it. What an iteration hands on is moved once, after the repeat, so it is read
    /// as such.
    fn renamed(&self, id: ValueId) -> Option<ValueId> {
        let value = self.value(id);
        let Definition::Move { operand, .. } = value.definition else { return None };
        let is_same = matches!(value.wanted, Wanted::Exact(_)) && value.wanted == self.value(operand).wanted;
        (is_same && self.is_plain_move(id, operand)).then_some(operand)
    }

    /// Whether a value is a move of an array in the same iteration, to the same dims and in no requested way.
    fn is_plain_move(&self, id: ValueId, source: ValueId) -> bool {
        let value = self.value(id);
        let is_move = matches!(value.definition, Definition::Move { operand, .. } if operand == source);
        let is_plain = value.using == Using::default() && value.pin.is_none();
        let is_carried = || self.carried().any(|carried| [carried.entry, carried.first, carried.last].contains(&id));
        is_move
            && is_plain
            && value.dims == self.value(source).dims
            && self.body_of(id) == self.body_of(source)
            && !is_carried()
    }

    /// Computed values without a layout whose only user is a move to a layout of evenly divided, complete values, as pairs
    /// with that layout.
    ///
    /// Such a value may as well have that layout: it is then moved at the end of its own statement, and the
    /// [move](Self::with_names_resolved) is another name of it, which keeps no user from being fused with it.
    pub fn moved_once(&self) -> Vec<(ValueId, &Sharding)> {
        let users = self.users();
        let layout = |id: ValueId| {
            let [user] = users[id.index()][..] else { return None };
            let (value, Wanted::Exact(layout)) = (self.value(user), &self.value(user).wanted) else { return None };
            let is_whole = layout.open.is_empty() && layout.divides(&value.dims, &self.mesh);
            (is_whole && self.is_plain_move(user, id)).then_some((id, layout))
        };
        self.value_ids().filter(|id| self.is_free(*id) && self.is_computed(*id)).filter_map(layout).collect()
    }

    /// The program in which some values have these layouts.
    #[must_use]
    pub fn with_layouts<'a>(&self, layouts: impl IntoIterator<Item = (ValueId, &'a Sharding)>) -> Program {
        let mut program = self.clone();
        for (id, layout) in layouts {
            program.values[id.index()].wanted = Wanted::Exact(layout.clone());
        }
        program
    }

    /// The program in which each value reads the array itself instead of another name of it; `None` if none reads
    /// one. The names stay, and [`Program::read_as`] has those that were read.
    pub fn with_names_resolved(&self) -> Option<Program> {
        let mut source: Vec<ValueId> = Vec::with_capacity(self.values.len());
        for id in self.value_ids() {
            source.push(self.renamed(id).map_or(id, |operand| source[operand.index()]));
        }
        let mut resolved = self.clone();
        for user in self.value_ids() {
            for (place, operand) in resolved.values[user.index()].definition.operands_mut().iter_mut().enumerate() {
                let name = std::mem::replace(operand, source[operand.index()]);
                if *operand != name {
                    resolved.read_as.insert((user, place), name);
                }
            }
        }
        (!resolved.read_as.is_empty()).then_some(resolved)
    }

    /// The operand of a value under the name by which the text reads it.
    pub fn operand_as_read(&self, user: ValueId, place: usize) -> ValueId {
        let own = || self.value(user).definition.operands()[place];
        self.read_as.get(&(user, place)).copied().unwrap_or_else(own)
    }

    /// The name under which a value reads an array; the array itself if it reads several.
    pub fn name_read(&self, user: ValueId, array: ValueId) -> ValueId {
        let operands = self.value(user).definition.operands().iter().enumerate();
        let places = operands.filter(|(_, operand)| **operand == array);
        let mut names = places.map(|(place, _)| self.operand_as_read(user, place));
        let first = names.next().unwrap_or(array);
        if names.all(|name| name == first) { first } else { array }
    }

    /// The program in which values read the names of the text again.
    #[must_use]
    pub fn with_names_restored(mut self) -> Program {
        for ((user, place), name) in std::mem::take(&mut self.read_as) {
            self.values[user.index()].definition.operands_mut()[place] = name;
        }
        self
    }

    /// For each value, whether it is only another name that nothing reads.
    pub fn unread_names(&self) -> Vec<bool> {
        let mut unread: Vec<bool> = self.value_ids().map(|id| self.renamed(id).is_some()).collect();
        for id in &self.outputs {
            unread[id.index()] = false;
        }
        for (at, value) in self.values.iter().enumerate().rev() {
            if !unread[at] {
                value.definition.operands().iter().for_each(|operand| unread[operand.index()] = false);
            }
        }
        unread
    }
}
