"""The models in plain NumPy. `NAME(i, s)` takes the inputs by name and the sizes of the dims, and returns the outputs.

`INPUTS[NAME][INPUT](rng, shape, s, inputs)` makes an input that must be more than random numbers.
"""

import numpy as np

import float8


def positive(rng, shape, s, inputs):
    return rng.random(shape) + 0.5


def zeros(rng, shape, s, inputs):
    return np.zeros(shape)


def below(size):
    """Integers from 0 below a dim."""
    return lambda rng, shape, s, inputs: rng.integers(0, getattr(s, size), shape)


def angles(positions, pairs, base=10000.0):
    return np.outer(np.ravel(positions), base ** (-np.arange(pairs) / pairs))


def cos_table(rng, shape, s, inputs):
    return np.cos(angles(np.arange(shape[0]), shape[1]))


def sin_table(rng, shape, s, inputs):
    return np.sin(angles(np.arange(shape[0]), shape[1]))


def cos_at_pos(rng, shape, s, inputs):
    return np.cos(angles(inputs["pos"], shape[1]))


def sin_at_pos(rng, shape, s, inputs):
    return np.sin(angles(inputs["pos"], shape[1]))


def rotary(x, positions):
    """Rotates pairs (x[p], x[p + P]) of the last dim; positions fit the first dims of x after broadcasting."""
    pairs = x.shape[-1] // 2
    z = x[..., :pairs] + 1j * x[..., pairs:]
    z = z * np.exp(1j * positions[..., None] * 10000.0 ** (-np.arange(pairs) / pairs))
    return np.concatenate([z.real, z.imag], -1)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def rms_norm(x, weight=1.0, eps=1e-5):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


def layer_norm(x, weight=1.0, bias=0.0, eps=1e-5):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight + bias


def attend(q, k, v, allowed=None, scale=None, bias=0.0):
    """Attention of one head: q [S, H], k [T, H], v [T, V]."""
    scores = q @ k.T * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    if allowed is not None:
        scores = np.where(allowed, scores, -np.inf)
    return softmax(scores) @ v


def heads(q, k, v, allowed=None, scale=None, bias=None):
    """Attention of q [B, S, N, H] to k, v [B, T, K, H] with N a multiple of K; `allowed` is [S, T] or [B, S, T]."""
    out = np.zeros(q.shape[:3] + v.shape[3:])
    group = q.shape[2] // k.shape[2]
    for b in range(q.shape[0]):
        for n in range(q.shape[2]):
            mask = allowed[b] if allowed is not None and allowed.ndim == 3 else allowed
            extra = 0.0 if bias is None else bias[n]
            out[b, :, n] = attend(q[b, :, n], k[b, :, n // group], v[b, :, n // group], mask, scale, extra)
    return out


def causal(size):
    return np.tril(np.ones((size, size), bool))


def project(x, w):
    """x [.., D] times w [D, ..]."""
    return np.tensordot(x, w, 1)


# Programs that compute in a smaller dtype than that of their outputs.
PRECISION = {"fsdp_tensor_parallel_mlp": "bfloat16", "int4_group_quantised": "bfloat16"}

ROPE = {"cos": cos_table, "sin": sin_table}

INPUTS = {
    "llama3_layer": ROPE,
    "llama3_decode": {"pos": below("T"), "cos": cos_at_pos, "sin": sin_at_pos},
    "llama3_decode_long": {"pos": below("T")},
    "deepseek_mla_prefill": ROPE,
    "deepseek_mla_decode": {"pos": below("T")},
    "ring_attention": {
        "o": zeros,
        "l": zeros,
        "m": lambda rng, shape, s, inputs: np.full(shape, -1e9),
        "src": lambda rng, shape, s, inputs: np.arange(s.R),
    },
}


def llama3_layer(i, s):
    positions = np.arange(s.S)[:, None]
    h = rms_norm(i["x"], i["norm1"])
    q = rotary(project(h, i["Wq"]), positions)
    k = rotary(project(h, i["Wk"]), positions)
    o = heads(q, k, project(h, i["Wv"]), causal(s.S))
    x = i["x"] + np.tensordot(o, i["Wo"], 2)
    h = rms_norm(x, i["norm2"])
    return {"x": x + (silu(h @ i["Wgate"]) * (h @ i["Wup"])) @ i["Wdown"]}


def llama3_decode(i, s):
    q = rotary(project(i["x"], i["Wq"]), i["pos"][:, None])
    k = rotary(project(i["x"], i["Wk"]), i["pos"][:, None])
    v = project(i["x"], i["Wv"])
    ck, cv, y = i["ck"], i["cv"], i["x"].astype("f8")
    for b, p in enumerate(i["pos"]):
        ck[b, p], cv[b, p] = k[b], v[b]
        o = heads(q[b][None, None], ck[b, : p + 1][None], cv[b, : p + 1][None])[0, 0]
        y[b] += np.tensordot(o, i["Wo"], 2)
    return {"y": y, "ck": ck, "cv": cv}


def llama3_decode_long(i, s):
    ck, cv, o = i["ck"], i["cv"], np.zeros(i["q"].shape)
    for b, p in enumerate(i["pos"]):
        ck[b, p], cv[b, p] = i["k"][b], i["v"][b]
        o[b] = heads(i["q"][b][None, None], ck[b, : p + 1][None], cv[b, : p + 1][None])[0, 0]
    return {"o": o, "ck": ck, "cv": cv}


def deepseek_mla_prefill(i, s):
    x, n = i["x"], np.arange(s.S)
    cq = rms_norm(x @ i["Wdq"], i["normq"], 1e-6)
    c = rms_norm(x @ i["Wdkv"], i["normc"], 1e-6)
    q = np.concatenate([project(cq, i["Wuq"]), rotary(project(cq, i["Wqr"]), n[:, None])], -1)
    kr = rotary(x @ i["Wkr"], n)[:, :, None].repeat(s.N, 2)
    k = np.concatenate([project(c, i["Wuk"]), kr], -1)
    o = heads(q, k, project(c, i["Wuv"]), causal(s.S))
    return {"y": np.tensordot(o, i["Wo"], 2)}


def deepseek_mla_decode(i, s):
    cc, ckr, y = i["cc"], i["ckr"], i["x"].astype("f8")
    for b, p in enumerate(i["pos"]):
        cc[b, p], ckr[b, p] = i["c"][b], i["kr"][b]
        for n in range(s.N):
            k = np.concatenate([cc[b, : p + 1] @ i["Wuk"][:, n], ckr[b, : p + 1]], -1)
            q = np.concatenate([i["qn"][b, n], i["qr"][b, n]])
            y[b] += attend(q[None], k, cc[b, : p + 1] @ i["Wuv"][:, n])[0] @ i["Wo"][n]
    return {"y": y, "cc": cc, "ckr": ckr}


def deepseek_moe(i, s):
    y = i["x"].astype("f8")
    for b, x in enumerate(i["x"]):
        score = sigmoid(x @ i["Wr"])
        chosen = np.argsort(-(score + i["bias"]))[: s.TOP]
        for e in chosen:
            h = silu(x @ i["Wgate"][e]) * (x @ i["Wup"][e])
            y[b] += 2.5 * score[e] / score[chosen].sum() * (h @ i["Wdown"][e])
        y[b] += (silu(x @ i["Sgate"]) * (x @ i["Sup"])) @ i["Sdown"]
    return {"y": y}


def mixtral_moe(i, s):
    y, load = np.zeros(i["x"].shape), [0] * s.E
    for b, x in enumerate(i["x"]):
        logits = x @ i["Wr"]
        best = np.argsort(-logits)[:2]
        for e, weight in zip(best, softmax(logits[best])):
            if load[e] < s.C:
                y[b] += weight * ((silu(x @ i["Wgate"][e]) * (x @ i["Wup"][e])) @ i["Wdown"][e])
            load[e] += 1
    return {"y": y}


def switch_routing(i, s):
    y = np.zeros(i["x"].shape)
    p = softmax(i["x"] @ i["Wr"])
    best = p.argmax(-1)
    for g in range(s.G):
        load = [0] * s.E
        for t in range(s.S):
            e = best[g, t]
            if load[e] < s.C:
                y[g, t] = p[g, t, e] * (np.maximum(i["x"][g, t] @ i["W1"][e], 0) @ i["W2"][e])
            load[e] += 1
    share = np.bincount(best.ravel(), minlength=s.E) / best.size
    return {"y": y, "loss": s.E * share @ p.mean((0, 1))}


def expert_choice(i, s):
    y, p = np.zeros(i["x"].shape), softmax(i["x"] @ i["Wr"])
    for e in range(s.E):
        for t in np.argsort(-p[:, e])[: s.C]:
            y[t] += p[t, e] * (gelu(i["x"][t] @ i["W1"][e]) @ i["W2"][e])
    return {"y": y}


def context_parallel_attention(i, s):
    return {"o": heads(i["q"], i["k"], i["v"], causal(s.S))}


def ring_attention(i, s):
    q, k, v = (i[a].reshape(1, -1, s.N, s.H) for a in "qkv")
    return {"y": heads(q, k, v, causal(q.shape[1])).reshape(i["q"].shape)}


INPUTS |= {
    "t5_relative_bias": {},
    "cross_attention": {"length": lambda rng, shape, s, inputs: rng.integers(1, s.T + 1, shape)},
    "prefix_lm_attention": {"prefix": below("S")},
    "packed_attention": {"seg": lambda rng, shape, s, inputs: np.sort(rng.integers(1, 4, shape)) * (np.arange(s.S) < 10)},
    "bert_mlm_head": {
        "masked": below("S"),
        "label": below("V"),
        "used": lambda rng, shape, s, inputs: np.arange(s.M) < rng.integers(1, s.M + 1, shape[0])[:, None],
    },
}


def ulysses(i, s):
    return {"o": heads(i["q"], i["k"], i["v"], causal(s.S))}


def sliding_window_attention(i, s):
    allowed = np.array([[t <= q and q < t + s.W for t in range(s.S)] for q in range(s.S)])
    return {"o": heads(i["q"], i["k"], i["v"], allowed)}


def alibi_attention(i, s):
    bias = [[[-(2.0 ** (-8 * (n + 1) / s.N)) * (q - t) for t in range(s.S)] for q in range(s.S)] for n in range(s.N)]
    return {"o": heads(i["q"], i["k"], i["v"], causal(s.S), bias=np.array(bias))}


def t5_relative_bias(i, s):
    def bucket(distance):
        half = s.U // 2
        if distance < half:
            return distance
        return min(half + int(np.log(distance / half) / np.log(s.M / half) * (s.U - half)), s.U - 1)

    buckets = np.array([[bucket(max(q - t, 0)) for t in range(s.S)] for q in range(s.S)])
    return {"o": heads(i["q"], i["k"], i["v"], causal(s.S), 1.0, i["table"][buckets].transpose(2, 0, 1))}


def cross_attention(i, s):
    y = i["x"].astype("f8")
    for b, n in enumerate(i["length"]):
        enc = i["enc"][b : b + 1, :n]
        o = heads(project(i["x"][b : b + 1], i["Wq"]), project(enc, i["Wk"]), project(enc, i["Wv"]))
        y[b] += np.tensordot(o, i["Wo"], 2)[0]
    return {"y": y}


def prefix_lm_attention(i, s):
    allowed = np.array([causal(s.S) for _ in i["prefix"]])
    for b, n in enumerate(i["prefix"]):
        allowed[b, :, :n] = True
    return {"o": heads(i["q"], i["k"], i["v"], allowed)}


def packed_attention(i, s):
    o, position = np.zeros(i["q"].shape), np.zeros((s.B, s.S), "i4")
    for b in range(s.B):
        for document in set(i["seg"][b]) - {0}:
            at = np.flatnonzero(i["seg"][b] == document)
            position[b, at] = np.arange(at.size)
            o[b, at] = heads(*(i[a][b : b + 1, at] for a in "qkv"), causal(at.size))[0]
    return {"o": o, "position": position}


def multi_query_attention(i, s):
    q = project(i["x"], i["Wq"])
    o = heads(q[:, None], i["ck"][:, :, None], i["cv"][:, :, None])
    return {"y": np.tensordot(o, i["Wo"], 2)[:, 0]}


def gpt2_block(i, s):
    h = layer_norm(i["x"], i["g1"], i["b1"])
    q, k, v = np.moveaxis(project(h, i["Wqkv"]) + i["bqkv"], 2, 0)
    x = i["x"] + np.tensordot(heads(q, k, v, causal(s.S)), i["Wo"], 2) + i["bo"]
    h = layer_norm(x, i["g2"], i["b2"])
    return {"x": x + gelu(h @ i["Win"] + i["bin"]) @ i["Wout"] + i["bout"]}


def palm_block(i, s):
    h = layer_norm(i["x"], i["g"], eps=1e-6)
    k, v = (h @ i["Wk"])[:, :, None], (h @ i["Wv"])[:, :, None]
    o = heads(project(h, i["Wq"]), k, v, causal(s.S))
    mlp = (silu(h @ i["Wg"]) * (h @ i["Wu"])) @ i["Wd"]
    return {"y": i["x"] + np.tensordot(o, i["Wo"], 2) + mlp}


def gemma2_layer(i, s):
    h = rms_norm(i["x"], 1 + i["n1"], 1e-6)
    q, k, v = (project(h, i[w]) for w in ("Wq", "Wk", "Wv"))
    o = np.zeros(q.shape)
    for b in range(s.B):
        for n in range(s.N):
            for t in range(s.S):
                first = max(0, t - s.W + 1)
                scores = k[b, first : t + 1, n // s.G] @ q[b, t, n] / np.sqrt(s.H)
                o[b, t, n] = softmax(50 * np.tanh(scores / 50)) @ v[b, first : t + 1, n // s.G]
    x = i["x"] + rms_norm(np.tensordot(o, i["Wo"], 2), 1 + i["n2"], 1e-6)
    h = rms_norm(x, 1 + i["n3"], 1e-6)
    mlp = (gelu(h @ i["Wgate"]) * (h @ i["Wup"])) @ i["Wdown"]
    return {"x": x + rms_norm(mlp, 1 + i["n4"], 1e-6)}


def vit_patch_embedding(i, s):
    tokens = [np.tile(i["cls"], (s.B, 1))]
    for y in range(0, s.I * s.P, s.P):
        for x in range(0, s.J * s.Q, s.Q):
            tokens.append(np.tensordot(i["image"][:, :, y : y + s.P, x : x + s.Q], i["W"], 3) + i["b"])
    return {"x": np.stack(tokens, 1) + i["E"]}


def cross_entropy(logits, labels):
    """Loss of each row."""
    p = softmax(logits.astype("f8"))
    return -np.log(p.reshape(-1, p.shape[-1])[np.arange(labels.size), labels.ravel()]).reshape(labels.shape)


def clip_loss(i, s):
    image = i["image"] / np.linalg.norm(i["image"], axis=1, keepdims=True)
    text = i["text"] / np.linalg.norm(i["text"], axis=1, keepdims=True)
    logits = np.exp(i["scale"]) * image @ text.T
    labels = np.arange(s.B)
    return {"loss": (cross_entropy(logits, labels).mean() + cross_entropy(logits.T, labels).mean()) / 2}


def bert_mlm_head(i, s):
    x = np.stack([i["x"][b, i["masked"][b]] for b in range(s.B)])
    h = layer_norm(gelu(x @ i["W"] + i["b"]), i["gain"], i["shift"], 1e-12)
    loss = cross_entropy(h @ i["E"].T + i["bv"], i["label"])
    return {"loss": loss[i["used"] > 0].mean()}


def labels_or_ignored(rng, shape, s, inputs):
    return np.where(rng.random(shape) < 0.25, -100, rng.integers(0, s.V, shape))


INPUTS |= {
    "vocab_parallel_embedding": {"ids": below("V")},
    "vocab_parallel_cross_entropy": {"labels": labels_or_ignored},
    "label_smoothing": {"label": below("V")},
    "z_loss": {"label": below("V")},
    "perplexity": {"ids": below("V"), "length": lambda rng, shape, s, inputs: rng.integers(2, s.S + 1, shape)},
    "cross_entropy_backward": {"label": below("V")},
    "adam": {"v": positive, "t": lambda rng, shape, s, inputs: 7},
    "adamw_zero1": {"v": positive},
    "sgd_momentum_zero2": {"g": zeros},
}


def gradients(loss, i, *names):
    """Central differences of a scalar function of the inputs, in f64."""
    i = {k: v.astype("f8") if v.dtype.kind == "f" else v for k, v in i.items()}
    result = []
    for name in names:
        d = np.zeros(i[name].shape)
        for at in np.ndindex(d.shape):
            value = i[name][at]
            i[name][at] = value + 1e-4
            high = loss(i)
            i[name][at] = value - 1e-4
            d[at] = (high - loss(i)) / 2e-4
            i[name][at] = value
        result.append(d)
    return result


def vocab_parallel_embedding(i, s):
    return {"x": i["E"][i["ids"]] + i["P"]}


def vocab_parallel_cross_entropy(i, s):
    used = i["labels"] != -100
    return {"loss": cross_entropy((i["x"] @ i["W"])[used], i["labels"][used]).mean()}


def label_smoothing(i, s):
    logp = np.log(softmax(i["logits"]))
    loss = [-0.9 * row[label] - 0.1 * row.mean() for row, label in zip(logp, i["label"])]
    return {"loss": np.mean(loss)}


def z_loss(i, s):
    logits = i["x"] @ i["E"].T
    extra = 1e-4 * np.log(np.exp(logits).sum(-1)) ** 2
    return {"total": (cross_entropy(logits, i["label"]) + extra).mean(), "zloss": extra}


def perplexity(i, s):
    losses = []
    for logits, ids, n in zip(i["logits"], i["ids"], i["length"]):
        losses += list(cross_entropy(logits[: n - 1], ids[1:n]))
    return {"ppl": np.exp(np.mean(losses))}


def linear_backward(i, s):
    def loss(i):
        return ((i["x"] @ i["W"] + i["b"]) * i["dy"]).sum()

    dx, dw, db = gradients(loss, i | {"b": np.zeros(s.F)}, "x", "W", "b")
    return {"dx": dx, "dW": dw, "db": db}


def mlp_backward(i, s):
    def loss(i):
        return ((silu(i["x"] @ i["Win"]) @ i["Wout"]) * i["dy"]).sum()

    dx, dwin, dwout = gradients(loss, i, "x", "Win", "Wout")
    return {"y": silu(i["x"] @ i["Win"]) @ i["Wout"], "dx": dx, "dWin": dwin, "dWout": dwout}


def cross_entropy_backward(i, s):
    dx, dw = gradients(lambda i: cross_entropy(i["x"] @ i["W"], i["label"]).mean(), i, "x", "W")
    return {"dx": dx, "dW": dw}


def layernorm_backward(i, s):
    def loss(i):
        return (layer_norm(i["x"], i["g"], i["b"]) * i["dy"]).sum()

    dx, dg, db = gradients(loss, i | {"b": np.zeros(s.D)}, "x", "g", "b")
    return {"dx": dx, "dg": dg, "db": db}


def rmsnorm_backward(i, s):
    dx, dg = gradients(lambda i: (rms_norm(i["x"], i["g"], 1e-6) * i["dy"]).sum(), i, "x", "g")
    return {"dx": dx, "dg": dg}


def attention_backward(i, s):
    def loss(i):
        return (heads(i["q"], i["k"], i["v"], causal(s.S)) * i["do"]).sum()

    return dict(zip(("dq", "dk", "dv"), gradients(loss, i, "q", "k", "v")))


def adam(i, s):
    w, m, v = (i[k].astype("f8") for k in "wmv")
    for at in np.ndindex(w.shape):
        m[at] += (i["g"][at] - m[at]) * (1 - 0.9)
        v[at] += (float(i["g"][at]) ** 2 - v[at]) * (1 - 0.999)
        w[at] -= 3e-4 * (m[at] / (1 - 0.9**7)) / ((v[at] / (1 - 0.999**7)) ** 0.5 + 1e-8)
    return {"w": w, "m": m, "v": v}


def adamw_zero1(i, s):
    g = i["x"].T.astype("f8") @ i["dy"]
    m = 0.9 * i["m"] + 0.1 * g
    v = 0.95 * i["v"] + 0.05 * g**2
    w = i["master"] * (1 - 0.01 * 0.1) - 0.01 * (m / 0.1) / (np.sqrt(v / 0.05) + 1e-8)
    return {"w": w, "master": w, "m": m, "v": v}


def sgd_momentum_zero2(i, s):
    steps = ["", ".2", ".3"]
    g = np.mean([i["x" + k].T @ i["dy" + k] for k in steps], 0)
    u = 0.9 * i["u"] + g
    return {"w": i["w"] - 0.1 * (g + 0.9 * u), "u": u}


def lion_zero3(i, s):
    g = i["x"].T @ i["dy"]
    w = (1 - 1e-3) * i["w"] - 1e-2 * np.sign(0.9 * i["m"] + 0.1 * g)
    return {"w": w, "m": 0.99 * i["m"] + 0.01 * g}


def gradient_clipping(i, s):
    norm = np.linalg.norm(np.concatenate([i[k].ravel() for k in ("dE", "dW", "db")]))
    scale = min(1.0, 1 / norm)
    return {"norm": norm, "cE": i["dE"] * scale, "cW": i["dW"] * scale, "cb": i["db"] * scale}


INPUTS |= {
    "int8_matmul": {
        "W": lambda rng, shape, s, inputs: rng.integers(-127, 128, shape),
        "wscale": lambda rng, shape, s, inputs: positive(rng, shape, s, inputs) / 127,
    },
    "quantised_kv_cache": {
        "k": lambda rng, shape, s, inputs: rng.integers(-127, 128, shape),
        "v": lambda rng, shape, s, inputs: rng.integers(-127, 128, shape),
        "kscale": lambda rng, shape, s, inputs: positive(rng, shape, s, inputs) / 127,
        "vscale": lambda rng, shape, s, inputs: positive(rng, shape, s, inputs) / 127,
    },
    "pipeline": {"state": zeros, "out": zeros, "t": zeros},
    "mamba2_ssd": {"loga": lambda rng, shape, s, inputs: -positive(rng, shape, s, inputs)},
    "batchnorm": {"rvar": positive},
    "dropout": {"keep": lambda rng, shape, s, inputs: rng.random(shape) < 0.9},
    "speculative_verify": {
        "draft": lambda rng, shape, s, inputs: np.where(
            rng.random(shape) < 0.8, inputs["logits"].argmax(-1)[:, :-1], rng.integers(0, s.V, shape)
        )
    },
}


def lora_forward_backward(i, s):
    def output(i):
        return i["x"] @ (i["W"] + 8 / s.R * i["A"] @ i["C"])

    dx, da, dc = gradients(lambda i: (output(i) * i["dy"]).sum(), i, "x", "A", "C")
    return {"y": output(i), "dx": dx, "dA": da, "dC": dc}


def int8_matmul(i, s):
    y = np.zeros((s.B, s.F))
    for b, x in enumerate(i["x"]):
        scale = np.abs(x).max() / np.float32(127)
        q = np.array([int(np.copysign(np.floor(abs(z) + np.float32(0.5)), z)) for z in x / scale])
        y[b] = (q @ i["W"].astype(int)) * scale * i["wscale"]
    return {"y": y}


def quantised_kv_cache(i, s):
    k, v = (i[a] * i[a + "scale"][..., None] for a in "kv")
    return {"o": heads(i["q"][:, None], k, v)[:, 0]}


def pipeline(i, s):
    x = i["in"]
    for stage in i["W"]:
        x = np.tanh(x @ stage)
    return {"out": x}


def mamba2_ssd(i, s):
    x, loga, bm, cm = (i[a].reshape(s.B, s.C * s.L, *i[a].shape[3:]) for a in ("x", "loga", "Bm", "Cm"))
    y = np.zeros(x.shape)
    for b in range(s.B):
        state = np.zeros((s.N, s.P, s.K))
        for t in range(s.C * s.L):
            state = np.exp(loga[b, t])[:, None, None] * state + x[b, t][:, :, None] * bm[b, t]
            y[b, t] = state @ cm[b, t]
    return {"y": y.reshape(i["x"].shape)}


def linear_attention(i, s):
    def feature(x):
        return np.where(x > 0, x + 1, np.exp(x))

    o = np.zeros(i["v"].shape)
    for b, n in np.ndindex(s.B, s.N):
        weights = feature(i["q"][b, :, n]) @ feature(i["k"][b, :, n]).T
        o[b, :, n] = weights / weights.sum(-1, keepdims=True) @ i["v"][b, :, n]
    return {"o": o}


def rwkv_time_mixing(i, s):
    y = np.zeros(i["r"].shape)
    for b in range(s.B):
        num = den = np.zeros(s.D)
        for t in range(s.S):
            k, v = np.exp(i["k"][b, t].astype("f8")), i["v"][b, t]
            now = np.exp(i["u"]) * k
            y[b, t] = sigmoid(i["r"][b, t]) * (num + now * v) / (den + now)
            decay = np.exp(-np.exp(i["w"]))
            num, den = decay * num + k * v, decay * den + k
    return {"y": y}


def retnet_retention(i, s):
    q, k, v, g = (project(i["x"], i[w]) for w in ("Wq", "Wk", "Wv", "Wg"))
    o = np.zeros(q.shape)
    for b, n in np.ndindex(s.B, s.N):
        state = np.zeros((s.H, s.H))
        for t in range(s.S):
            state = (1 - 2.0 ** (-5 - n)) * state + np.outer(k[b, t, n], v[b, t, n])
            o[b, t, n] = q[b, t, n] @ state / np.sqrt(s.H)
    return {"y": np.tensordot(silu(g) * rms_norm(o, eps=1e-6), i["Wo"], 2)}


def glu_variants(i, s):
    a, b = i["x"] @ i["W"], i["x"] @ i["V"]
    gates = {"glu": sigmoid(a), "bilinear": a, "reglu": np.maximum(a, 0), "geglu": gelu(a), "swiglu": silu(a)}
    return {name: (gate * b) @ i["W2"] for name, gate in gates.items()}


def batchnorm(i, s):
    x = i["x"].astype("f8").reshape(-1, s.C)
    y = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) * i["gain"] + i["bias"]
    running = {"rmean": 0.9 * i["rmean"] + 0.1 * x.mean(0), "rvar": 0.9 * i["rvar"] + 0.1 * x.var(0)}
    return {"y": y.reshape(i["x"].shape)} | running


def groupnorm(i, s):
    y = np.zeros(i["x"].shape)
    for b in range(s.B):
        for first in range(0, s.C, s.J):
            part = i["x"][b, first : first + s.J].astype("f8")
            y[b, first : first + s.J] = (part - part.mean()) / np.sqrt(part.var() + 1e-5)
    return {"y": y * i["gain"][:, None, None] + i["bias"][:, None, None]}


def dropout(i, s):
    return {"y": i["x"] + (i["h"] @ i["W"]) * i["keep"] / 0.9}


def mixture_of_depths(i, s):
    y = i["x"].astype("f8")
    for b, x in enumerate(i["x"]):
        score = x @ i["r"]
        for t in np.argsort(-score)[: s.C]:
            y[b, t] += score[t] * (gelu(x[t] @ i["Win"]) @ i["Wout"])
    return {"y": y}


def speculative_verify(i, s):
    accepted, following = [], []
    for logits, draft in zip(i["logits"], i["draft"]):
        n = 0
        while n < s.K and draft[n] == logits[n].argmax():
            n += 1
        accepted.append(n)
        following.append(logits[n].argmax())
    return {"accepted": np.array(accepted), "next": np.array(following)}


def beam_search_step(i, s):
    total = (i["score"][:, :, None] + i["logp"]).reshape(s.B, -1)
    order = np.argsort(-total, -1)[:, : s.W]
    return {"best": np.take_along_axis(total, order, 1), "parent": order // s.V, "token": order % s.V}


def kmeans_step(i, s):
    distance = ((i["x"][:, None].astype("f8") - i["c"]) ** 2).sum(-1)
    near = distance.argmin(1)
    c = [i["x"][near == k].mean(0) if (near == k).any() else i["c"][k] for k in range(s.K)]
    return {"c": np.array(c), "inertia": distance.min(1).sum()}


def one_based(size):
    """Integers from 1 through the size of a dim."""
    return lambda rng, shape, s, inputs: rng.integers(1, getattr(s, size) + 1, shape)


INPUTS |= {
    "pagerank": {"rank": lambda rng, shape, s, inputs: np.full(shape, 1 / s.I)},
    "dlrm_interaction": {"ids": below("V")},
    "gnn_aggregation": {"src": below("N"), "dst": below("N")},
    "diffusion_timestep": {
        "t": below("V"),
        "table": lambda rng, shape, s, inputs: np.concatenate(
            [np.cos(angles(np.arange(s.V), s.E // 2)), np.sin(angles(np.arange(s.V), s.E // 2))], 1
        ),
    },
    "fnet_mixing": {
        "cs": lambda rng, shape, s, inputs: np.fft.fft(np.eye(s.S)).real,
        "ss": lambda rng, shape, s, inputs: np.fft.fft(np.eye(s.S)).imag,
        "cd": lambda rng, shape, s, inputs: np.fft.fft(np.eye(s.D)).real,
        "sd": lambda rng, shape, s, inputs: np.fft.fft(np.eye(s.D)).imag,
    },
    "flash_attention_blocks": {
        "m": lambda rng, shape, s, inputs: np.full(shape, -1e9),
        "l": zeros,
        "acc": zeros,
        "step": zeros,
    },
    "top_p_sampling": {"noise": lambda rng, shape, s, inputs: rng.gumbel(size=shape)},
    "dpo_loss": {"ids": below("V")},
    "grpo_advantage": {"length": one_based("S")},
}


def pagerank(i, s):
    rank = i["rank"]
    for _ in range(8):
        new = np.full(s.I, 0.15 / s.I)
        for page in range(s.I):
            targets = np.flatnonzero(i["link"][:, page])
            for target in targets if targets.size else range(s.I):
                new[target] += 0.85 * rank[page] / (targets.size or s.I)
        rank = new
    return {"rank": rank}


def matrix_factorisation(i, s):
    p, q, loss = i["P"] * (1 - 0.002), i["Q"] * (1 - 0.002), 0.0
    for u, item in np.argwhere(i["seen"]):
        error = i["P"][u] @ i["Q"][item] - i["rating"][u, item]
        p[u] -= 0.1 * error * i["Q"][item]
        q[item] -= 0.1 * error * i["P"][u]
        loss += error**2
    return {"newP": p, "newQ": q, "loss": loss}


def summa(i, s):
    return {"C": i["A"] @ i["B"]}


def conv1d(i, s):
    y = np.zeros((s.B, s.S, s.F))
    for t in range(s.S):
        for w in range(min(s.W, t + 1)):
            y[:, t] += i["x"][:, t - w] @ i["K"][w]
    return {"y": np.maximum(y + i["b"], 0)}


def depthwise_conv(i, s):
    y = [[np.convolve(i["x"][b, :, d], i["k"][::-1, d])[: s.S] for d in range(s.D)] for b in range(s.B)]
    return {"y": silu(np.array(y).transpose(0, 2, 1) + i["b"])}


def conv2d(i, s):
    x = np.pad(i["x"], ((0, 0), (1, 1), (1, 1), (0, 0)))
    y = np.zeros((s.B, s.Y, s.X, s.F))
    for r, c in np.ndindex(s.Y, s.X):
        y[:, r, c] = np.tensordot(x[:, r : r + 3, c : c + 3], i["K"], 3)
    return {"y": np.maximum(y + i["b"], 0)}


def average_pooling(i, s):
    mean, largest = np.zeros((s.B, s.I, s.J, s.C)), np.zeros((s.B, s.I, s.J, s.C))
    for r, c in np.ndindex(s.I, s.J):
        window = i["x"][:, 2 * r : 2 * r + 2, 2 * c : 2 * c + 2]
        mean[:, r, c], largest[:, r, c] = window.mean((1, 2)), window.max((1, 2))
    return {"mean": mean, "largest": largest, "all": i["x"].mean((1, 2))}


def dlrm_interaction(i, s):
    y = np.zeros((s.B, s.F))
    for b in range(s.B):
        bottom = np.maximum(i["dense"][b] @ i["Wb"], 0)
        vectors = [bottom] + [i["E"][t, i["ids"][b, t]] for t in range(s.T)]
        rows, columns = np.tril_indices(s.I, -1)
        pairs = np.array([vectors[r] @ vectors[c] for r, c in zip(rows, columns)])
        top = np.concatenate([i["Wd"], i["Wi"][rows, columns]])
        y[b] = np.maximum(np.concatenate([bottom, pairs]) @ top, 0)
    return {"y": y}


def gnn_aggregation(i, s):
    y = np.zeros((s.N, s.F))
    for node in range(s.N):
        sources = i["src"][i["dst"] == node]
        mean = i["h"][sources].mean(0) if sources.size else np.zeros(s.D)
        y[node] = np.maximum(i["h"][node] @ i["Ws"] + mean @ i["Wn"], 0)
    return {"y": y}


def diffusion_timestep(i, s):
    freq = 10000.0 ** (-np.arange(s.E // 2) / (s.E // 2))
    e = np.concatenate([np.cos(i["t"][:, None] * freq), np.sin(i["t"][:, None] * freq)], 1)
    e = silu(e @ i["W1"]) @ i["W2"]
    shift, scale = np.moveaxis(project(silu(e), i["Wm"]), 1, 0)
    return {"y": layer_norm(i["x"], eps=1e-6) * (1 + scale[:, None]) + shift[:, None]}


def fnet_mixing(i, s):
    return {"y": layer_norm(i["x"] + np.fft.fft2(i["x"]).real)}


def flash_attention_blocks(i, s):
    return {"o": heads(i["q"], i["k"], i["v"], causal(s.S))}


def differential_attention(i, s):
    q, k, v = (project(i["x"], i[w]) for w in ("Wq", "Wk", "Wv"))
    first = heads(q[:, :, :, 0], k[:, :, :, 0], v, causal(s.S))
    second = heads(q[:, :, :, 1], k[:, :, :, 1], v, causal(s.S))
    o = rms_norm(first - i["lam"][:, None] * second)
    return {"y": np.tensordot(0.2 * o, i["Wo"], 2)}


def attention_sink(i, s):
    o = np.zeros(i["q"].shape)
    for b, n, t in np.ndindex(s.B, s.N, s.S):
        scores = i["k"][b, : t + 1, n // s.G] @ i["q"][b, t, n] / np.sqrt(s.H)
        p = softmax(np.append(scores, i["sink"][n]))[:-1]
        o[b, t, n] = p @ i["v"][b, : t + 1, n // s.G]
    return {"o": o}


def top_p_sampling(i, s):
    tokens = []
    for logits, noise in zip(i["logits"] / 0.7, i["noise"]):
        order = np.argsort(-logits)
        reached = np.cumsum(softmax(logits)[order])
        kept = order[: np.argmax(reached >= 0.8) + 1]
        tokens.append(kept[np.argmax((logits + noise)[kept])])
    return {"token": np.array(tokens)}


def ppo_loss(i, s):
    new, old, adv = (i[k][i["mask"]].astype("f8") for k in ("new", "old", "adv"))
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    ratio = np.exp(new - old)
    loss = -np.minimum(ratio * adv, np.clip(ratio, 0.8, 1.2) * adv).mean()
    return {"loss": loss, "clip_fraction": (np.abs(ratio - 1) > 0.2).mean()}


def dpo_loss(i, s):
    logp = np.log(softmax(i["logits"]))
    margins = []
    for b in range(s.B):
        total = [sum(logp[b, c, t, i["ids"][b, c, t]] for t in np.flatnonzero(i["answer"][b, c])) for c in (0, 1)]
        margins.append(0.1 * ((total[0] - i["ref"][b, 0]) - (total[1] - i["ref"][b, 1])))
    margins = np.array(margins)
    return {"loss": -np.log(sigmoid(margins)).mean(), "accuracy": (margins > 0).mean()}


def distillation_loss(i, s):
    p, q = softmax(i["teacher"] / 2), softmax(i["student"] / 2)
    return {"loss": 2**2 * np.mean([(a * np.log(a / b)).sum() for a, b in zip(p, q)])}


def grpo_advantage(i, s):
    adv = (i["reward"] - i["reward"].mean(1, keepdims=True)) / (i["reward"].std(1, keepdims=True) + 1e-4)
    losses = []
    for p, g in np.ndindex(s.P, s.G):
        n = i["length"][p, g]
        logp, old, ref = (i[k][p, g, :n] for k in ("logp", "old", "ref"))
        ratio = np.exp(logp - old)
        gain = np.minimum(ratio * adv[p, g], np.clip(ratio, 0.8, 1.2) * adv[p, g])
        losses.append(-(gain - 0.04 * (np.exp(ref - logp) - (ref - logp) - 1)).mean())
    return {"loss": np.mean(losses), "adv": adv}


INPUTS |= {
    "adafactor": {"r": positive, "c": positive},
    "lstm": {"t": zeros},
    "sinkhorn_routing": {"c": lambda rng, shape, s, inputs: np.ones(shape)},
    "delta_rule": {
        "beta": lambda rng, shape, s, inputs: rng.random(shape),
        "state": zeros,
        "y": zeros,
        "t": zeros,
    },
    "hmm_forward": {
        "obs": below("V"),
        "start": lambda rng, shape, s, inputs: np.log(rng.dirichlet(np.ones(s.K))),
        "trans": lambda rng, shape, s, inputs: np.log(rng.dirichlet(np.ones(s.K), s.J)),
        "emit": lambda rng, shape, s, inputs: np.log(rng.dirichlet(np.ones(s.V), s.K)),
        "t": zeros,
    },
    "paged_attention": {"pages": below("G"), "length": lambda rng, shape, s, inputs: rng.integers(1, s.L * s.P + 1, shape)},
    "dynamic_loss_scaling": {
        "scale": lambda rng, shape, s, inputs: 1024,
        "good": lambda rng, shape, s, inputs: 3,
    },
    "confusion_matrix": {"label": below("C")},
    "embedding_backward": {"ids": below("V")},
    "int4_group_quantised": {
        "W": lambda rng, shape, s, inputs: rng.integers(0, 16, shape),
        "zero": lambda rng, shape, s, inputs: rng.integers(4, 12, shape),
    },
    "fp8_mlp": {
        "Wup": lambda rng, shape, s, inputs: rng.standard_normal(shape) * 100,
        "Wdown": lambda rng, shape, s, inputs: rng.standard_normal(shape) * 100,
        "sup": lambda rng, shape, s, inputs: positive(rng, shape, s, inputs) / 1000,
        "sdown": lambda rng, shape, s, inputs: positive(rng, shape, s, inputs) / 1000,
    },
    "uint8_affine_matmul": {
        "x": lambda rng, shape, s, inputs: rng.integers(0, 256, shape),
        "W": lambda rng, shape, s, inputs: rng.integers(0, 256, shape),
        "xzero": lambda rng, shape, s, inputs: rng.integers(100, 156, shape),
        "wzero": lambda rng, shape, s, inputs: rng.integers(100, 156, shape),
    },
    "vae_elbo": {"x": lambda rng, shape, s, inputs: rng.random(shape) < 0.5},
    "conjugate_gradient": {
        "A": lambda rng, shape, s, inputs: (lambda a: a @ a.T / s.I + np.eye(s.I))(rng.standard_normal(shape)),
        "x": zeros,
    },
    "gpt_training_loss": {"ids": below("V")},
}


def fsdp_tensor_parallel_mlp(i, s):
    x = i["x"]
    for layer in ("", ".2"):
        h = rms_norm(x, i["norm" + layer])
        x = x + (silu(h @ i["Wgate" + layer]) * (h @ i["Wup" + layer])) @ i["Wdown" + layer]
    return {"x": x}


def grouped_attention_split_axis(i, s):
    q = project(i["x"], i["Wq"]).reshape(s.B, s.S, -1, s.H)
    o = heads(q, project(i["x"], i["Wk"]), project(i["x"], i["Wv"]), causal(s.S))
    return {"y": i["x"] + np.tensordot(o, i["Wo"].reshape(-1, s.H, s.D), 2)}


def muon_step(i, s):
    m = 0.95 * i["m"].astype("f8") + i["g"]
    u, d, vt = np.linalg.svd(i["g"] + 0.95 * m, full_matrices=False)
    d = d / np.sqrt((d**2).sum())
    for _ in range(5):
        d = 3.4445 * d - 4.775 * d**3 + 2.0315 * d**5
    return {"w": i["w"] - 0.02 * (u * d) @ vt, "m": m}


def adafactor(i, s):
    g = i["g"].astype("f8")
    r = 0.8 * i["r"] + 0.2 * (g**2).mean(1)
    c = 0.8 * i["c"] + 0.2 * (g**2).mean(0)
    u = g / np.sqrt(np.outer(r, c) / r.mean())
    u /= max(1.0, np.linalg.norm(u) / np.sqrt(u.size))
    size = max(1e-3, np.linalg.norm(i["w"]) / np.sqrt(u.size))
    return {"w": i["w"] - 0.01 * size * u, "r": r, "c": c}


def lstm(i, s):
    h, c = i["h"], i["c"]
    for t in range(s.S):
        gates = project(i["x"][:, t], i["Wx"]) + project(h, i["Wh"]) + i["b"]
        c = sigmoid(gates[:, 1]) * c + sigmoid(gates[:, 0]) * np.tanh(gates[:, 2])
        h = sigmoid(gates[:, 3]) * np.tanh(c)
    return {"h": h, "c": c}


def sinkhorn_routing(i, s):
    p = np.exp(i["logits"].astype("f8"))
    for _ in range(6):
        p /= p.sum(1, keepdims=True)
        p *= s.S / s.E / p.sum(0)
    best = p.argmax(1)
    return {"expert": best, "gate": sigmoid(i["logits"][np.arange(s.S), best])}


def swin_window_attention(i, s):
    half = s.P // 2
    q, k, v = (np.roll(i[a].reshape(s.B, s.S, s.N, s.H), -half, 1) for a in "qkv")
    region = np.roll(np.arange(s.S) < half, -half)
    window = np.arange(s.S) // s.P
    allowed = (window[:, None] == window) & (region[:, None] == region)
    return {"y": np.roll(heads(q, k, v, allowed), half, 1)}


def rg_lru(i, s):
    r, gate = sigmoid(i["x"] @ i["Wa"]), sigmoid(i["x"] @ i["Wi"])
    h, y = np.zeros((s.B, s.E)), np.zeros((s.B, s.S, s.E))
    for t in range(s.S):
        a = sigmoid(-i["lam"].astype("f8")) ** (8 * r[:, t])
        h = a * h + np.sqrt(1 - a**2) * gate[:, t] * i["x"][:, t]
        y[:, t] = h
    return {"y": y}


def delta_rule(i, s):
    y = np.zeros(i["v"].shape)
    for b, n in np.ndindex(s.B, s.N):
        state = np.zeros((s.V, s.H))
        for t in range(s.S):
            k = i["k"][b, t, n] / np.linalg.norm(i["k"][b, t, n])
            beta = i["beta"][b, t, n]
            state = state @ (np.eye(s.H) - beta * np.outer(k, k)) + beta * np.outer(i["v"][b, t, n], k)
            y[b, t, n] = state @ i["q"][b, t, n]
    return {"y": y}


def hmm_forward(i, s):
    start, trans, emit = (np.exp(i[k].astype("f8")) for k in ("start", "trans", "emit"))
    result = []
    for obs in i["obs"]:
        a = start * emit[:, obs[0]]
        for o in obs[1:]:
            a = (a @ trans) * emit[:, o]
        result.append(np.log(a.sum()))
    return {"logp": np.array(result)}


def paged_attention(i, s):
    o = np.zeros(i["q"].shape)
    for b, n in enumerate(i["length"]):
        k, v = (i[p][i["pages"][b]].reshape(-1, s.K, s.H)[:n] for p in ("kpool", "vpool"))
        o[b] = heads(i["q"][b][None, None], k[None], v[None])[0, 0]
    return {"o": o}


def sparse_attention_topk(i, s):
    o = np.zeros(i["q"].shape)
    for b, t in np.ndindex(s.B, s.S):
        index = i["w"][b, t] @ np.maximum(i["qi"][b, t] @ i["ki"][b, : t + 1].T, 0)
        # Of equal scores all stay, as the count of larger ones does not part them.
        kept = np.array([(index > score).sum() < s.C for score in index])
        for n in range(s.N):
            at = np.flatnonzero(kept)
            o[b, t, n] = attend(i["q"][b, t, n][None], i["k"][b, at, n], i["v"][b, at, n])[0]
    return {"o": o}


def dynamic_loss_scaling(i, s):
    assert np.isfinite(i["g"]).all()
    return {"w": i["w"] - 0.1 * i["g"].astype("f8") / i["scale"], "scale": 2 * i["scale"], "good": np.int32(0)}


def confusion_matrix(i, s):
    count = np.zeros((s.C, s.C), "i8")
    for label, logits in zip(i["label"], i["logits"]):
        count[label, logits.argmax()] += 1
    hit = np.diag(count)
    precision, recall = hit / np.maximum(count.sum(0), 1), hit / np.maximum(count.sum(1), 1)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-30)
    return {"count": count, "accuracy": hit.sum() / s.B, "f1": f1}


def embedding_backward(i, s):
    d = np.zeros((s.V, s.D))
    np.add.at(d, i["ids"], i["dx"])
    return {"dE": d}


def vector_search(i, s):
    index, cosine = [], []
    for q in i["query"]:
        scores = [q @ d / np.linalg.norm(q) / np.linalg.norm(d) for d in i["docs"]]
        index.append(np.argsort(scores)[::-1][: s.K])
        cosine.append(np.array(scores)[index[-1]])
    return {"index": np.array(index), "cosine": np.array(cosine)}


def fp8_mlp(i, s):
    def quantised(x, groups):
        """Quantised numbers, and the scale of each group of columns."""
        scales = np.abs(x.reshape(s.B, groups, -1)).max(2).astype("f4") * np.float32(1 / 448)
        columns = np.repeat(scales, x.shape[1] // groups, 1)
        return float8.rounded(x.astype("f4") / columns) * columns.astype("f8")

    up = i["Wup"] * np.repeat(i["sup"], s.P, 0)
    down = i["Wdown"] * np.repeat(i["sdown"], s.Q, 0)
    h = np.maximum(quantised(i["x"], s.J) @ up, 0)
    return {"y": quantised(h, s.L) @ down}


def uint8_affine_matmul(i, s):
    x = (i["x"].astype(int) - i["xzero"][:, None]) * i["xscale"][:, None].astype("f8")
    w = (i["W"].astype(int) - i["wzero"]) * i["wscale"].astype("f8")
    return {"y": x @ w}


def int4_group_quantised(i, s):
    y = np.zeros((s.B, s.F))
    for row in range(s.D):
        group = row // s.P
        w = (i["W"][row].astype(int) - i["zero"][group]) * i["scale"][group]
        y += i["x"][:, row : row + 1] * w
    return {"y": y}


def siglip_loss(i, s):
    total = 0.0
    for b, c in np.ndindex(s.B, s.B):
        image, text = i["image"][b].astype("f8"), i["text"][c].astype("f8")
        logit = np.exp(i["t"]) * image @ text / np.linalg.norm(image) / np.linalg.norm(text) + i["b"]
        total -= np.log(sigmoid(logit if b == c else -logit))
    return {"loss": total / s.B}


def vae_elbo(i, s):
    mu, logvar = np.moveaxis(project(np.tanh(i["x"] @ i["We"]), i["Wz"]), 1, 0).astype("f8")
    p = sigmoid((mu + np.exp(logvar / 2) * i["noise"]) @ i["Wd"])
    rec = -(i["x"] * np.log(p) + (1 - i["x"]) * np.log(1 - p)).sum(1)
    kl = 0.5 * (mu**2 + np.exp(logvar) - 1 - logvar).sum(1)
    return {"loss": (rec + kl).mean()}


def pixel_shuffle(i, s):
    y = np.zeros((s.B, s.C, s.Y, s.X))
    for c, p, q in np.ndindex(s.C, s.P, s.Q):
        y[:, c, p :: s.P, q :: s.Q] = i["x"][:, (c * s.P + p) * s.Q + q]
    return {"y": y}


def conjugate_gradient(i, s):
    a, b = i["A"].astype("f8"), i["b"].astype("f8")
    x, basis = np.zeros(s.I), [b]
    for _ in range(5):
        basis.append(a @ basis[-1])
    # After n steps x is the best point of the Krylov space, in the norm of A.
    k = np.linalg.qr(np.array(basis).T)[0]
    return {"x": k @ np.linalg.solve(k.T @ a @ k, k.T @ b)}


def gpt_training_loss(i, s):
    x = i["E"][i["ids"]] + i["pos"]
    for layer in ("", ".2"):
        h = rms_norm(x, i["g1" + layer])
        q, k, v = (project(h, i[w + layer]) for w in ("Wq", "Wk", "Wv"))
        x = x + np.tensordot(heads(q, k, v, causal(s.S)), i["Wo" + layer], 2)
        x = x + gelu(rms_norm(x, i["g2" + layer]) @ i["Win" + layer]) @ i["Wout" + layer]
    logits = rms_norm(x, i["gf"]) @ i["E"].T
    return {"loss": cross_entropy(logits[:, :-1], i["ids"][:, 1:]).mean()}


PRECISION |= {"layer_scan_bf16": "bfloat16"}

INPUTS |= {
    "llama3_layer_long_names": ROPE,
    "rope_backward": ROPE,
    "flash_decoding_by_hand": {"valid": one_based("kv_len")},
    "adamw_donated": {"v": positive, "step": lambda rng, shape, s, inputs: 4},
}


def llama3_layer_long_names(i, s):
    names = {"norm1": "attn_norm", "norm2": "mlp_norm", "Wq": "w_q", "Wk": "w_k", "Wv": "w_v", "Wo": "w_o"}
    names |= {"Wgate": "w_gate", "Wup": "w_up", "Wdown": "w_down", "x": "x"}
    s.S = s.seq
    return llama3_layer({new: i[old] for new, old in names.items()}, s)


def moe_all_to_all(i, s):
    y = np.zeros(i["x"].shape)
    for g, group in enumerate(i["x"]):
        load = [0] * s.n_exp
        for t, x in enumerate(group):
            p = softmax(x @ i["w_gate"])
            best = np.argsort(-p)[: s.top_k]
            for e in best:
                if load[e] < s.slot:
                    y[g, t] += p[e] / p[best].sum() * (gelu(x @ i["w_in"][e]) @ i["w_out"][e])
                load[e] += 1
    return {"y": y}


def whisper_cross_layer(i, s):
    def block(x, states, q, k, v, o, allowed=None):
        return x + np.tensordot(heads(q, project(states, i[k]), project(states, i[v]), allowed), i[o], 2)

    x = i["x"]
    h = layer_norm(x, i["g1"])
    x = block(x, h, project(h, i["wq"]), "wk", "wv", "wo", causal(s.seq))
    x = block(x, i["enc"], project(layer_norm(x, i["g2"]), i["cq"]), "ck", "cv", "co")
    return {"x": x + gelu(layer_norm(x, i["g3"]) @ i["w1"]) @ i["w2"]}


def rope_backward(i, s):
    freq = 10000.0 ** (-np.arange(s.P) / s.P)

    def turn(x):
        y = np.zeros(x.shape)
        for t, p in np.ndindex(s.S, s.P):
            c, z = np.cos(t * freq[p]), np.sin(t * freq[p])
            y[:, t, :, 2 * p : 2 * p + 2] = x[:, t, :, 2 * p : 2 * p + 2] @ np.array([[c, z], [-z, c]])
        return y

    (dx,) = gradients(lambda i: (turn(i["x"]) * i["dy"]).sum(), i, "x")
    return {"y": turn(i["x"]), "dx": dx}


def mixtral_padded(i, s):
    y = np.zeros(i["x"].shape)
    for b, x in enumerate(i["x"]):
        p = softmax(x @ i["Wr"])
        best = np.argsort(-p)[:2]
        for e in best:
            y[b] += p[e] / p[best].sum() * (np.maximum(x @ i["W1"][e], 0) @ i["W2"][e])
    return {"y": y}


def layer_scan_bf16(i, s):
    x = i["x"]
    for layer in ("", ".2"):
        h = rms_norm(x, i["scale" + layer], 1e-6)
        q, k, v = np.moveaxis(project(h, i["Wqkv" + layer]), 2, 0)
        x = x + np.tensordot(heads(q, k, v, causal(s.S)), i["Wo" + layer], 2)
        x = x + gelu(h @ i["Win" + layer]) @ i["Wout" + layer]
    return {"x": x}


def flash_decoding_by_hand(i, s):
    y = np.zeros(i["q"].shape)
    for b, n in enumerate(i["valid"]):
        y[b] = heads(i["q"][b][None, None], i["k"][b : b + 1, :n], i["v"][b : b + 1, :n])[0, 0]
    return {"y": y}


def adamw_donated(i, s):
    w, m, v, g = (i[k].astype("f8") for k in "wmvg")
    m, v, step = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g, int(i["step"])
    rate = 1e-3 * (step / s.warmup if step < s.warmup else (s.total - step) / (s.total - s.warmup))
    update = m / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return {"w": w - rate * (update + 0.1 * w), "m": m, "v": v}


INPUTS |= {
    "ring_buffer_cache": {"pos": lambda rng, shape, s, inputs: rng.integers(0, 3 * s.W, shape)},
    "train_step_accumulated": {"y": lambda rng, shape, s, inputs: rng.random(shape) < 0.5},
    "longformer_attention": {"length": lambda rng, shape, s, inputs: rng.integers(s.S // 2, s.S + 1, shape)},
    "wide_and_deep": {"id": lambda rng, shape, s, inputs: rng.integers(0, 2**20, shape)},
}


def group_limited_routing(i, s):
    weight = np.zeros((s.B, s.G, s.M))
    for b, x in enumerate(i["x"]):
        score = sigmoid(np.tensordot(x, i["Wr"], 1))
        biased = score + i["bias"]
        groups = np.argsort(-np.sort(biased, 1)[:, -2:].sum(1), kind="stable")[: s.GROUPS]
        experts = [(g, m) for g in groups for m in range(s.M)]
        experts = sorted(experts, key=lambda e: -biased[e])[: s.TOP]
        for e in experts:
            weight[b][e] = 2.5 * score[e] / sum(score[e] for e in experts)
    return {"weight": weight}


def ring_buffer_cache(i, s):
    ck, cv, o = i["ck"], i["cv"], np.zeros(i["q"].shape)
    for b, p in enumerate(i["pos"]):
        ck[b, p % s.W], cv[b, p % s.W] = i["k"][b], i["v"][b]
        n = min(p + 1, s.W)
        o[b] = heads(i["q"][b][None, None], ck[b, :n][None], cv[b, :n][None])[0, 0]
    return {"o": o, "ck": ck, "cv": cv}


def moe_backward(i, s):
    def loss(i):
        p = softmax(i["x"] @ i["Wr"])
        return sum(((np.tanh(i["x"] @ i["W1"][e]) @ i["W2"][e]) * p[:, e : e + 1] * i["dy"]).sum() for e in range(s.E))

    return dict(zip(("dx", "dWr", "dW1", "dW2"), gradients(loss, i, "x", "Wr", "W1", "W2")))


def whisper_stem(i, s):
    def conv(x, kernel, stride):
        x = np.pad(x, ((0, 0), (1, 1), (0, 0)))
        steps = range(0, x.shape[1] - 2, stride)
        return np.stack([np.tensordot(x[:, t : t + 3], kernel, 2) for t in steps], 1)

    return {"x": gelu(conv(gelu(conv(i["mel"], i["K1"], 1)), i["K2"], 2)) + i["pos"]}


def max_pool_overlapping(i, s):
    x = np.pad(i["x"], ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    y = [[x[:, r : r + 3, c : c + 3].max((1, 2)) for c in range(0, s.X, 2)] for r in range(0, s.Y, 2)]
    return {"y": np.array(y).transpose(2, 0, 1, 3)}


def hierarchical_gradient(i, s):
    return {"new": i["w"] - 0.01 * np.mean([np.outer(x, d) for x, d in zip(i["x"], i["dy"])], 0)}


def train_step_accumulated(i, s):
    w, names = i["w"], iter([".1", ".2", ".3", ".1.2", ".2.2", ".3.2"])
    for _ in range(s.STEPS):
        batches = [(i["x" + n], i["y" + n]) for n in (next(names) for _ in range(s.MICRO))]
        x, y = (np.concatenate(part) for part in zip(*batches))
        w = 0.99 * w - 0.1 * ((sigmoid(x @ w) - y)[:, None] * x).mean(0)
    return {"w": w}


def longformer_attention(i, s):
    o = np.zeros(i["q"].shape)
    for b, n in enumerate(i["length"]):
        for t in range(n):
            seen = [u for u in range(n) if abs(t - u) <= s.A or t < s.G or u < s.G]
            for head in range(s.N):
                o[b, t, head] = attend(i["q"][b, t, head][None], i["k"][b, seen, head], i["v"][b, seen, head])[0]
    return {"o": o}


def free_layouts(i, s):
    return {"y": (silu(i["x"] @ i["w_gate"]) * (i["x"] @ i["w_up"])) @ i["w_down"]}


def tensor_parallel_3d(i, s):
    return {"C": i["A"] @ i["B"]}


def wide_and_deep(i, s):
    p = np.zeros(s.B)
    for b, row in enumerate(i["id"]):
        buckets = [(int(f) * 40503 + 12345) % s.V for f in row]
        deep = np.maximum(i["E"][buckets].sum(0) @ i["W1"], 0) @ i["W2"]
        p[b] = sigmoid(deep + i["lin"][buckets].sum())
    return {"p": p}


INPUTS |= {
    "embedding_take": {"ids": below("V"), "length": lambda rng, shape, s, inputs: rng.integers(1, s.S + 1, shape)},
    "top_k_routing": {},
    "pipeline_shift": {},
    "window_append": {},
}


def embedding_take(i, s):
    x = i["E"][i["ids"]] + i["P"]
    return {"x": x, "last": x[np.arange(s.B), i["length"] - 1]}


def top_k_routing(i, s):
    y, experts = np.zeros(i["x"].shape), np.zeros((s.S, s.K), int)
    for t, x in enumerate(i["x"]):
        logits = x @ i["Wr"]
        experts[t] = np.argsort(-logits, kind="stable")[: s.K]
        for e, gate in zip(experts[t], softmax(logits[experts[t]])):
            y[t] += gate * (np.maximum(x @ i["W1"][e], 0) @ i["W2"][e])
    return {"y": y, "experts": experts}


def pipeline_shift(i, s):
    return pipeline(i, s)


def window_append(i, s):
    ck, cv = (np.concatenate([i[old][:, s.T :], i[new]], 1) for old, new in (("ck", "k"), ("cv", "v")))
    k, v = (np.repeat(a, s.G, 2) for a in (ck, cv))
    scores = np.einsum("btnh,bwnh->btnw", i["q"], k) / np.sqrt(s.H)
    reach = np.arange(s.W)[None, :] <= np.arange(s.T)[:, None] + s.R
    o = np.einsum("btnw,bwnh->btnh", softmax(np.where(reach[:, None, :], scores, -1e9)), v)
    return {"o": o, "ck": ck, "cv": cv}
