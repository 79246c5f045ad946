# SPDX-License-Identifier: Apache-2.0
"""A trajectory head of a model's shape with random weights: its plans mean nothing, and say which keys it has read."""
import array, json, os, random

ROWS, WIDTH, MLP, ENCODER, FEATURES, STEPS = 64, 32, 48, 16, 6, 3


def shapes(layers, heads, kv_heads, head_width):
    trunk, q, g = "action_in_proj.encoder.trunk.", heads * head_width, kv_heads * head_width
    out = {trunk + "0.weight": (ENCODER, 4 * FEATURES), trunk + "0.bias": (ENCODER,), trunk + "2.weight": (ENCODER,),
           trunk + "3.weight": (ENCODER, ENCODER), trunk + "3.bias": (ENCODER,), trunk + "5.weight": (ENCODER,),
           trunk + "6.weight": (WIDTH, ENCODER), trunk + "6.bias": (WIDTH,), "action_in_proj.norm.weight": (WIDTH,),
           "action_in_proj.norm.bias": (WIDTH,), "expert.norm.weight": (WIDTH,), "action_out_proj.weight": (3, WIDTH), "action_out_proj.bias": (3,)}
    for i in range(layers):
        a, m = f"expert.layers.{i}.self_attn.", f"expert.layers.{i}.mlp."
        out.update({a + "q_proj.weight": (q, WIDTH), a + "k_proj.weight": (g, WIDTH), a + "v_proj.weight": (g, WIDTH), a + "o_proj.weight": (WIDTH, q),
                    a + "q_norm.weight": (head_width,), a + "k_norm.weight": (head_width,), m + "gate_proj.weight": (MLP, WIDTH),
                    m + "up_proj.weight": (MLP, WIDTH), m + "down_proj.weight": (WIDTH, MLP),
                    f"expert.layers.{i}.input_layernorm.weight": (WIDTH,), f"expert.layers.{i}.post_attention_layernorm.weight": (WIDTH,)})
    return out


def numbers(name, shape, draw):
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    if len(shape) == 1 and "bias" not in name:
        return array.array("f", [1.0] * count)
    most = (3 / shape[1]) ** 0.5 if len(shape) > 1 else 0.1
    return array.array("f", [draw.uniform(-most, most) for _ in range(count)])


def write_random_head(model, folder, until="trajectory", reads="sections"):
    """`model`: a folder whose text model it reads."""
    config = json.load(open(os.path.join(model, "config.json")))
    text = config.get("text_config", config)
    layers, heads, kv_heads = text["num_hidden_layers"], text["num_attention_heads"], text["num_key_value_heads"]
    head_width = text.get("head_dim") or text["hidden_size"] // heads
    os.makedirs(folder, exist_ok=True)
    json.dump({"model_type": "flow_head", "hidden_size": WIDTH, "intermediate_size": MLP, "num_hidden_layers": layers, "num_attention_heads": heads,
               "num_key_value_heads": kv_heads, "head_dim": head_width, "rope_theta": text.get("rope_theta", 10000.0), "rows": ROWS, "row_s": 0.1,
               "action_width": 3, "encoder_width": ENCODER, "fourier_features": FEATURES, "max_frequency": 4, "euler_steps": STEPS, "reads": reads,
               "until": until, "action_mean": [0.8, 0, 0], "action_deviation": [0.1, 0.02, 0.01]},
              open(os.path.join(folder, "config.json"), "w"))
    header, data, draw = {}, b"", random.Random(1)
    for name, shape in shapes(layers, heads, kv_heads, head_width).items():
        part = numbers(name, shape, draw).tobytes()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(len(head).to_bytes(8, "little") + head + data)
