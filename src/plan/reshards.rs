//! Replacement of chains of moves by routed moves.
//!
//! The search uses sequences of collectives. Sending the data of a chain directly loads the links less, since no
//! piece takes a detour. So each chain of a plan is tried as one move.

use super::{Cost, LowerBound, Plan, Step, StepId, StepOp, Stop};
use crate::collective::{Collective, CollectiveKind};
use crate::program::Definition;
use crate::recipe::Tuner;
use petgraph::Direction;
use std::collections::BTreeMap;

/// The steps of a chain, in order.
type Chain = Vec<StepId>;

impl Plan {
    /// Replaces each chain of moves by one move where that is faster on the clock; `None` if it never is.
    ///
    /// Moves that a statement writes, or whose method it prescribes, are kept.
    ///
    /// - `self`: with recipes.
    pub fn with_reshards(&self, tuner: &Tuner<'_>) -> Option<Plan> {
        let mut replaced: BTreeMap<StepId, (Chain, Step)> = BTreeMap::new();
        for chain in self.chains() {
            if let Some(step) = self.reshard(&chain, tuner) {
                replaced.insert(chain[chain.len() - 1], (chain, step));
            }
        }
        (!replaced.is_empty()).then(|| self.clone().replacing(&replaced))
    }

    /// The maximal chains of moves of one value for one user; a single gather is not a chain.
    fn chains(&self) -> Vec<Chain> {
        let mut chains: Vec<Chain> = Vec::new();
        let mut taken = vec![false; self.steps.node_count()];
        for id in self.ids().filter(|id| self.moves(*id)) {
            if std::mem::replace(&mut taken[id.index()], true) {
                continue;
            }
            let mut chain = vec![id];
            let mut last = id;
            while let Some(next) = self.only_user(last).filter(|next| self.moves(*next) && self.is_same(last, *next)) {
                taken[next.index()] = true;
                chain.push(next);
                last = next;
            }
            chains.push(chain);
        }
        let is_gather = |id: StepId| matches!(&self.step(id).op, StepOp::Collective(Collective::AllGather { .. }));
        chains.retain(|chain| {
            chain.iter().any(|id| self.communicates(*id)) && !(chain.len() == 1 && is_gather(chain[0]))
        });
        chains
    }

    /// Whether a step only moves blocks, with no method prescribed.
    fn moves(&self, id: StepId) -> bool {
        let step = self.step(id);
        let StepOp::Collective(collective) = &step.op else { return false };
        let user = self.program.value(step.user);
        let is_asked = user.using.method.is_some() || matches!(user.definition, Definition::Collective { .. });
        let kinds =
            [CollectiveKind::AllGather, CollectiveKind::AllToAll, CollectiveKind::Permute, CollectiveKind::Slice];
        kinds.contains(&collective.kind()) && !is_asked && !step.layout.sharding.operator.is_root()
    }

    /// Whether two steps belong to one chain.
    fn is_same(&self, first: StepId, second: StepId) -> bool {
        let key = |id: StepId| {
            let step = self.step(id);
            (step.value, step.user, self.body(id), step.layout.dims.clone())
        };
        key(first) == key(second)
    }

    /// The only reader of a step's value; `None` if there are several, or the value is an output or carried.
    fn only_user(&self, id: StepId) -> Option<StepId> {
        let mut users = self.steps.neighbors_directed(id, Direction::Outgoing);
        let leaves =
            self.outputs.contains(&id) || self.carried.iter().any(|(first, last)| [*first, *last].contains(&id));
        let first = users.next().filter(|_| !leaves)?;
        users.next().is_none().then_some(first)
    }

    /// A chain as one step, if that is faster.
    fn reshard(&self, chain: &Chain, tuner: &Tuner<'_>) -> Option<Step> {
        let (first, last) = (chain[0], self.step(chain[chain.len() - 1]));
        let from = &self.step(self.operands(first)[0]).layout;
        let by = chain.iter().filter_map(|id| match &self.step(*id).op {
            StepOp::Collective(collective) => Some(collective.clone()),
            _ => None,
        });
        let collective = Collective::Reshard { to: last.layout.sharding.clone(), by: by.collect() };
        collective.apply(&from.sharding, &self.program.mesh)?;
        let recipe = tuner.choose(&collective, from, None);
        let chosen = recipe.as_ref().ok()?;
        let time = chosen.time?;
        if time >= chain.iter().map(|id| self.step(*id).cost.time).sum() {
            return None;
        }
        let usage = tuner.usage(&collective, from, None, chosen);
        // The limit is that of the longest step of the chain.
        let longest = chain.iter().map(|id| self.step(*id).cost).max_by_key(|cost| cost.time);
        let cost = Cost { time, ..longest.unwrap_or(last.cost) };
        Some(Step { op: StepOp::Collective(collective), cost, usage, recipe: Some(recipe), ..last.clone() })
    }

    /// The plan in which the last step of each of these chains replaces the chain.
    fn replacing(mut self, replaced: &BTreeMap<StepId, (Chain, Step)>) -> Plan {
        let mut left_out = vec![false; self.steps.node_count()];
        for (chain, _) in replaced.values() {
            chain[..chain.len() - 1].iter().for_each(|id| left_out[id.index()] = true);
        }
        // The search covers only chains of collectives, so its bound does not hold here.
        (self.lower_bound, self.with_split_axes) = (LowerBound::default(), None);
        self.stop = Stop::Reshards;
        let order: Vec<StepId> = self.ids().filter(|id| !left_out[id.index()]).collect();
        let heads = replaced.iter().map(|(id, (chain, step))| (*id, (self.operands(chain[0]), step.clone())));
        let heads: BTreeMap<StepId, (Vec<StepId>, Step)> = heads.collect();
        self.rearranged(&order, |plan, id| match heads.get(&id) {
            Some((operands, step)) => (step.clone(), operands.clone()),
            None => (plan.step(id).clone(), plan.operands(id)),
        })
    }
}
