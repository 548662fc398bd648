//! What people type from JAX, NumPy, PyTorch, NCCL and Python is answered with the line as it is written here, and that
//! line is right.

use shardc::compiler;

const GROUND: &str = "mesh {X: 4, Y: 2} on tpu_v5p\ndims {B: 64, D: 128, F: 256}\nx: bf16[B_X, D]\nW: bf16[D, F_Y]\n\
                      v: bf16[B_X, D]\ny: bf16[B, D]{U_X}\n";

/// The line, and the one that is offered. Both stand behind the ground.
const LINES: [(&str, &str); 60] = [
    ("z = psum(y, 'X')", "z = AllReduce_X(y)"),
    ("z = psum(y, axis_name='X')", "z = AllReduce_X(y)"),
    ("z = jax.lax.psum(y, (\"X\",))", "z = AllReduce_X(y)"),
    ("z = lax.psum(y, axis_name=('X'))", "z = AllReduce_X(y)"),
    ("z = dist.all_reduce(y, 'X')", "z = AllReduce_X(y)"),
    ("z = psum_scatter(y, 'X')", "z = ReduceScatter_{X,D}(y)"),
    ("z = lax.psum_scatter(y, 'X', scatter_dimension=1, tiled=True)", "z = ReduceScatter_{X,D}(y)"),
    ("z = dist.reduce_scatter_tensor(y, 'X')", "z = ReduceScatter_{X,D}(y)"),
    ("z = all_gather(x, 'X')", "z = AllGather_X(x)"),
    ("z = lax.all_gather(x, 'X', axis=0, tiled=True)", "z = AllGather_X(x)"),
    ("z = dist.all_gather_into_tensor(x, 'X')", "z = AllGather_X(x)"),
    ("z = relu(all_gather(x, 'X'))", "z = relu(AllGather_X(x))"),
    ("z = all_to_all(x, 'X', 0, 1)", "z = AllToAll_{X,D}(x)"),
    ("z = lax.all_to_all(x, axis_name='X', split_axis=1, concat_axis=0)", "z = AllToAll_{X,D}(x)"),
    ("z = jnp.einsum('BD,DF->BF', x, W)", "z[B, F]_? = x * W"),
    ("z = einsum('bd,df->bf', x, W)", "z[B, F]_? = x * W"),
    ("z = torch.einsum(\"bd,df->fb\", x, W)", "z[F, B]_? = x * W"),
    ("z = jnp.einsum('bd,bd->bd', x, v)", "z[B, D]_? = x * v"),
    ("z = jnp.matmul(x, W)", "z = x * W"),
    ("z = jnp.dot(x, W)", "z = x * W"),
    ("z = torch.mm(x, W)", "z = x * W"),
    ("z = x.dot(W)", "z = x * W"),
    ("z = jnp.multiply(x, v)", "z = x .* v"),
    ("z = torch.mul(x, v)", "z = x .* v"),
    ("z = jnp.add(x, v)", "z = x + v"),
    ("z = np.subtract(x, v)", "z = x - v"),
    ("z = jnp.maximum(x, 0)", "z = max(x, 0)"),
    ("z = jnp.exp(x)", "z = exp(x)"),
    ("z = jax.nn.silu(x) .* v", "z = silu(x) .* v"),
    ("z = F.relu(x)", "z = relu(x)"),
    ("z = torch.sigmoid(x)", "z = sigmoid(x)"),
    ("z = jax.nn.softmax(x, axis=-1)", "z = softmax_D(x)"),
    ("z = softmax(x, axis=-1)", "z = softmax_D(x)"),
    ("z = F.softmax(x, dim=-1)", "z = softmax_D(x)"),
    ("z = jnp.sum(x, axis=1)", "z = sum_D(x)"),
    ("z = sum(x, axis=0)", "z = sum_D(x)"),
    ("z = x.sum(-1)", "z = sum_D(x)"),
    ("z = x.mean(axis=-1)", "z = mean_D(x)"),
    ("z = x.max(dim=1)", "z = max_D(x)"),
    ("z = x.astype(jnp.float32)", "z = f32(x)"),
    ("z = x.to(torch.float32)", "z = f32(x)"),
    ("z = x.astype('int8')", "z = i8(x)"),
    ("z = jnp.zeros((B, D))", "z: bf16[B, D]"),
    ("z = jnp.zeros((B, D), device=P('X', 'Y'))", "z: bf16[B_X, D_Y]"),
    ("z = jnp.ones((B, D), dtype=jnp.float32, device=P(None, ('X', 'Y')))", "z: f32[B, D_XY]"),
    ("z: bf16[B, D] P('X', None)", "z: bf16[B_X, D]"),
    ("z: bf16[B, D] NamedSharding(mesh, P(None, 'Y'))", "z: bf16[B, D_Y]"),
    ("z: bf16[B, D] Shard(1)", "z: bf16[B, D_X]"),
    ("z: bf16[B, D] Replicate()", "z: bf16[B, D]"),
    ("z: bf16(B_X, D)", "z: bf16[B_X, D]"),
    ("z: [B_X, D]", "z: bf16[B_X, D]"),
    ("z = jnp.power(x, 2)", "z = x ** 2"),
    ("z = jnp.greater(x, v)", "z = x > v"),
    ("z = torch.eq(x, v)", "z = x == v"),
    ("let z = x * W", "z = x * W"),
    ("const z = x * W", "z = x * W"),
    ("return x", "output x"),
    ("z = x * W // a product", "z = x * W  # a product"),
    ("// a comment", "# a comment"),
    ("z = lax.rsqrt(x)", "z = rsqrt(x)"),
];

#[test]
fn the_line_that_is_offered_is_right() {
    for (line, offered) in LINES {
        let (_, found) = compiler::check(&format!("{GROUND}{line}\nu = relu(x)\n"));
        let errors: Vec<_> = found.iter().filter(|found| found.code != "unused-array").collect();
        let help = errors.first().and_then(|found| found.help.clone()).unwrap_or_default();
        assert!(help.starts_with(&format!("write `{offered}`")), "{line}: {help} {errors:?}");
        let (program, found) = compiler::check(&format!("{GROUND}{offered}\nu = relu(x)\n"));
        assert!(program.is_some(), "{offered}: {found:?}");
    }
}

/// Words without a line of their own, and near misses, get a sentence of help.
#[test]
fn other_words_are_answered() {
    for (line, answer) in [
        ("z = ppermute(x, 'X', [(0, 1), (1, 2)])", "a permutation is a move between two layouts"),
        ("z = lax.axis_index('X')", "devices have no numbers"),
        ("z = x.reshape(B*D)", "declaring one as made of others"),
        ("z = jnp.concatenate([x, v])", "declare the parts as inputs"),
        ("z = x ** 5", "arrays have the powers"),
        ("z == v", "a result is written with one `=`: `z = v`"),
        ("z = jax.nn.one_hot(x, 8)", "write `z = bf16(x == iota_D)`"),
        ("z = jnp.arange(D)", "write `z = iota_D`"),
        ("z = jnp.tril(x)", "`where(iota_I >= iota_J, A, 0)`"),
        ("z = jnp.take(x, v)", "a one-hot array"),
        ("for i in range(4):", "write `repeat 4 {`"),
        ("while True:", "write `repeat 4 {`"),
        ("def layer(x):", "write `def f(x, W) {`"),
        ("import jax", "leave the line out"),
        ("if x:", "there are no branches"),
        ("z = AllGatherr_X(x)", "did you mean `AllGather_X`?"),
        ("z = Allgather_X(x)", "did you mean `AllGather_X`?"),
        ("z = ReduceScater_{X,D}(y)", "did you mean `ReduceScatter_{X,D}`?"),
        ("z = all_reduce(y)", "write `AllReduce_X(y)`"),
        ("z = matmul(x, W)", "write `x * W`"),
        ("z = transpose(x)", "with its dims in the order"),
        ("z = x.T", "with its dims in the order"),
        ("z = with_sharding_constraint(x, P('X', None))", "write `z[I_X, J] = x`, with the dims of the array"),
        ("z = jax.device_put(x, NamedSharding(mesh, P(None, 'X')))", "write `z[I, J_X] = x`"),
    ] {
        let (_, found) = compiler::check(&format!("{GROUND}{line}\n"));
        assert!(
            found.iter().any(|found| found.help.as_deref().is_some_and(|help| help.contains(answer))),
            "{line}: {found:?}"
        );
    }
    for (hardware, near) in [("TPUv5e", "tpu_v5e"), ("v5p", "tpu_v5p"), ("H100-SXM", "h100"), ("tpu-v6e", "tpu_v6e")] {
        let (_, found) =
            compiler::check(&format!("mesh {{X: 4}} on {hardware}\ndims {{I: 4}}\nA: f32[I_X]\nC = relu(A)\n"));
        let help = format!("did you mean `{near}`?");
        assert!(found.iter().any(|found| found.help.as_deref() == Some(&help)), "{hardware}: {found:?}");
    }
}
