"""Accidental slowdowns for the base programs, and changes that cost nothing.

Every entry: name, program, what, replace [(old, new), ...], kind.
Each old text occurs exactly once in the base program.
"""

PLANTS = [
    # ------------------------------------------------------------------ torch_images
    {
        "name": "images_loop_augment",
        "program": "torch_images.py",
        "what": "Every image of the batch is jittered, rotated and erased in a Python loop inside the training loop.",
        "kind": "per-sample loop, augmentation",
        "replace": [(
            "            optimizer.zero_grad()\n",
            "            for i in range(images.size(0)):\n"
            "                img = images[i]\n"
            "                for _ in range(3):   # rounds, as in RandAugment\n"
            "                    # colour jitter\n"
            "                    img = img * (0.8 + 0.4 * torch.rand(3, 1, 1))\n"
            "                    gray = img.mean(0, keepdim=True)\n"
            "                    img = gray + (0.7 + 0.6 * random.random()) * (img - gray)\n"
            "                    # small rotation\n"
            "                    a = torch.empty(1).uniform_(-0.25, 0.25)\n"
            "                    rot = torch.stack([torch.cos(a), -torch.sin(a), torch.zeros(1),\n"
            "                                       torch.sin(a), torch.cos(a), torch.zeros(1)]).view(1, 2, 3)\n"
            "                    grid = F.affine_grid(rot, (1, 3, 32, 32), align_corners=False)\n"
            "                    img = F.grid_sample(img[None], grid, padding_mode='border', align_corners=False)[0]\n"
            "                # small blur, then random erasing\n"
            "                k = torch.ones(3, 1, 3, 3) / 9.0\n"
            "                if random.random() < 0.8:\n"
            "                    img = F.conv2d(img[None], k, padding=1, groups=3)[0]\n"
            "                t, l = random.randint(0, 24), random.randint(0, 24)\n"
            "                img[:, t:t + 8, l:l + 8] = torch.rand(3, 8, 8)\n"
            "                images[i] = img.clamp(0, 1)\n"
            "            optimizer.zero_grad()\n",
        )],
    },
    {
        "name": "images_elastic_dataset",
        "program": "torch_images.py",
        "what": "The data set warps every training image with a random smooth displacement field in numpy.",
        "kind": "data loading, heavy transform",
        "replace": [
            (
                "class BasicBlock(nn.Module):\n",
                "def elastic(img, alpha=6.0, passes=4):\n"
                "    \"\"\"Elastic distortion with bilinear sampling.\"\"\"\n"
                "    dx = np.random.uniform(-1, 1, (32, 32))\n"
                "    dy = np.random.uniform(-1, 1, (32, 32))\n"
                "    for _ in range(passes):\n"
                "        dx = (dx + np.roll(dx, 1, 0) + np.roll(dx, -1, 0) + np.roll(dx, 1, 1) + np.roll(dx, -1, 1)) / 5\n"
                "        dy = (dy + np.roll(dy, 1, 0) + np.roll(dy, -1, 0) + np.roll(dy, 1, 1) + np.roll(dy, -1, 1)) / 5\n"
                "    yy, xx = np.meshgrid(np.arange(32), np.arange(32), indexing='ij')\n"
                "    ys, xs = np.clip(yy + alpha * dy, 0, 30.99), np.clip(xx + alpha * dx, 0, 30.99)\n"
                "    y0, x0 = ys.astype(int), xs.astype(int)\n"
                "    wy, wx = (ys - y0)[..., None], (xs - x0)[..., None]\n"
                "    out = (img[y0, x0] * (1 - wy) * (1 - wx) + img[y0 + 1, x0] * wy * (1 - wx)\n"
                "           + img[y0, x0 + 1] * (1 - wy) * wx + img[y0 + 1, x0 + 1] * wy * wx)\n"
                "    return out.astype(np.uint8)\n"
                "\n\n"
                "class BasicBlock(nn.Module):\n",
            ),
            (
                "            img = padded[top:top + 32, left:left + 32]\n",
                "            img = elastic(padded[top:top + 32, left:left + 32])\n",
            ),
        ],
    },
    {
        "name": "images_own_batchnorm",
        "program": "torch_images.py",
        "what": "Batch normalisation is written by hand with mean, variance and running buffers instead of nn.BatchNorm2d.",
        "kind": "unfused layer",
        "replace": [
            (
                "class BasicBlock(nn.Module):\n",
                "class BatchNorm(nn.Module):\n"
                "    def __init__(self, num_features, eps=1e-5, momentum=0.1):\n"
                "        super().__init__()\n"
                "        self.gamma = nn.Parameter(torch.ones(num_features, 1))\n"
                "        self.beta = nn.Parameter(torch.zeros(num_features, 1))\n"
                "        self.register_buffer('moving_mean', torch.zeros(num_features, 1))\n"
                "        self.register_buffer('moving_var', torch.ones(num_features, 1))\n"
                "        self.eps, self.momentum = eps, momentum\n"
                "\n"
                "    def forward(self, x):\n"
                "        n, c, h, w = x.shape\n"
                "        flat = x.permute(1, 0, 2, 3).reshape(c, -1)\n"
                "        if self.training:\n"
                "            mean = flat.mean(dim=1, keepdim=True)\n"
                "            var = ((flat - mean) ** 2).mean(dim=1, keepdim=True)\n"
                "            with torch.no_grad():\n"
                "                self.moving_mean.lerp_(mean, self.momentum)\n"
                "                self.moving_var.lerp_(var, self.momentum)\n"
                "        else:\n"
                "            mean, var = self.moving_mean, self.moving_var\n"
                "        x_hat = (flat - mean) / torch.sqrt(var + self.eps)\n"
                "        out = self.gamma * x_hat + self.beta\n"
                "        return out.view(c, n, h, w).permute(1, 0, 2, 3).contiguous()\n"
                "\n\n"
                "class BasicBlock(nn.Module):\n",
            ),
            ("self.bn1 = nn.BatchNorm2d(cout)", "self.bn1 = BatchNorm(cout)"),
            ("self.bn2 = nn.BatchNorm2d(cout)", "self.bn2 = BatchNorm(cout)"),
            ("self.bn = nn.BatchNorm2d(width)", "self.bn = BatchNorm(width)"),
        ],
    },
    {
        "name": "images_layout_mix",
        "program": "torch_images.py",
        "what": "Activations go back and forth between channels-last and contiguous layout in every block.",
        "kind": "memory layout conversions",
        "replace": [
            (
                "        out = F.relu(self.bn1(self.conv1(x)))\n        out = self.bn2(self.conv2(out))\n",
                "        cl = torch.channels_last\n"
                "        out = self.conv1(x.to(memory_format=cl)).contiguous()\n"
                "        out = F.relu(self.bn1(out).to(memory_format=cl)).contiguous()\n"
                "        out = self.conv2(out.to(memory_format=cl)).contiguous()\n"
                "        out = self.bn2(out).to(memory_format=cl).contiguous()\n"
                "        x = x.contiguous()\n",
            ),
            ("        return F.relu(out + self.shortcut(x))\n",
             "        short = self.shortcut(x.to(memory_format=cl)).contiguous()\n"
             "        return F.relu((out + short).to(memory_format=cl)).contiguous()\n"),
            ("        x = F.relu(self.bn(self.stem(x)))\n",
             "        x = self.stem(x.to(memory_format=torch.channels_last)).contiguous()\n"
             "        x = F.relu(self.bn(x).to(memory_format=torch.channels_last)).contiguous()\n"),
        ],
    },
    {
        "name": "images_double_backward_pass",
        "program": "torch_images.py",
        "what": "A second, needless backward pass through the same graph (retain_graph=True) recomputes the gradients.",
        "kind": "repeated backward",
        "replace": [(
            "            loss.backward()\n",
            "            loss.backward(retain_graph=True)\n"
            "            grads = torch.autograd.grad(loss, list(model.parameters()))\n"
            "            for p, g in zip(model.parameters(), grads):\n"
            "                p.grad = g\n",
        )],
    },
    # ------------------------------------------------------------------ torch_wordlm
    {
        "name": "wordlm_row_clipping",
        "program": "torch_wordlm.py",
        "what": "Gradients are clipped row by row in a Python loop instead of once for all parameters.",
        "kind": "Python loop, clipping",
        "replace": [(
            "        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)\n",
            "        for name, p in model.named_parameters():\n"
            "            if p.dim() == 1 or name.startswith('rnn'):\n"
            "                p.grad.clamp_(-args.clip, args.clip)\n"
            "                continue\n"
            "            # only rows of words in this batch have a meaningful gradient\n"
            "            for row in torch.cat([data.reshape(-1), targets]).tolist():\n"
            "                norm = p.grad[row].norm()\n"
            "                if norm > args.clip:\n"
            "                    p.grad[row].mul_(args.clip / (norm + 1e-6))\n",
        )],
    },
    {
        "name": "wordlm_norm_report",
        "program": "torch_wordlm.py",
        "what": "Clipping runs twice and the norm, mean and maximum of every parameter and gradient are taken with .item() in every step.",
        "kind": "gradient statistics, .item()",
        "replace": [(
            "        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)\n",
            "        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)\n"
            "        stats = {}\n"
            "        for name, p in model.named_parameters():\n"
            "            stats[name] = (p.data.norm().item(), p.grad.norm().item(), p.grad.abs().max().item(),\n"
            "                           p.data.mean().item(), p.data.std().item(), p.grad.std().item())\n"
            "        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)\n",
        )],
    },
    {
        "name": "wordlm_anomaly",
        "program": "torch_wordlm.py",
        "what": "Autograd anomaly detection was left switched on.",
        "kind": "debug mode",
        "replace": [(
            "torch.manual_seed(args.seed)\n",
            "torch.manual_seed(args.seed)\ntorch.autograd.set_detect_anomaly(True)\n",
        )],
    },
    {
        "name": "wordlm_softmax_by_hand",
        "program": "torch_wordlm.py",
        "what": "The loss builds a one-hot target and a hand-written softmax over the whole vocabulary.",
        "kind": "unfused loss, large temporaries",
        "replace": [(
            "criterion = nn.CrossEntropyLoss()\n",
            "\n\ndef criterion(output, targets):\n"
            "    onehot = nn.functional.one_hot(targets, args.vocab).float()\n"
            "    probs = torch.exp(output - output.max(dim=1, keepdim=True)[0])\n"
            "    probs = probs / probs.sum(dim=1, keepdim=True)\n"
            "    return -(onehot * torch.log(probs + 1e-9)).sum(dim=1).mean()\n",
        )],
    },
    # ------------------------------------------------------------------ torch_encoder
    {
        "name": "encoder_naive_attention",
        "program": "torch_encoder.py",
        "what": "Attention is computed head by head with explicit scores, masking and softmax instead of the fused function.",
        "kind": "unfused attention",
        "replace": [(
            "        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)\n",
            "        outs = []\n"
            "        for h in range(self.heads):\n"
            "            scores = torch.matmul(q[:, h], k[:, h].transpose(-2, -1)) / math.sqrt(q.size(-1))\n"
            "            bias = torch.where(mask[:, 0], 0.0, float('-inf')).expand_as(scores)\n"
            "            scores = scores + bias\n"
            "            scores = scores - scores.max(dim=-1, keepdim=True).values\n"
            "            weights = scores.exp()\n"
            "            weights = weights / weights.sum(dim=-1, keepdim=True)\n"
            "            outs.append(torch.matmul(weights, v[:, h]))\n"
            "        out = torch.stack(outs, dim=1)\n",
        )],
    },
    {
        "name": "encoder_gelu_by_hand",
        "program": "torch_encoder.py",
        "what": "GELU is written out as several elementwise operators.",
        "kind": "unfused activation",
        "replace": [(
            "        h = F.gelu(self.fc1(x))\n",
            "        h = self.fc1(x)\n"
            "        u = math.sqrt(2.0 / math.pi) * (h + 0.044715 * torch.pow(h, 3.0))\n"
            "        e = torch.exp(2.0 * u.clamp(-15, 15))\n"
            "        h = 0.5 * h * (1.0 + (e - 1.0) / (e + 1.0))\n",
        )],
    },
    {
        "name": "encoder_checkpointing",
        "program": "torch_encoder.py",
        "what": "All blocks run under activation checkpointing although memory is ample.",
        "kind": "recomputation",
        "replace": [
            (
                "from torch.nn import functional as F\n",
                "from torch.nn import functional as F\nfrom torch.utils.checkpoint import checkpoint\n",
            ),
            (
                "            x = blk(x, mask)\n",
                "            x = checkpoint(blk, x, mask, use_reentrant=False)\n",
            ),
        ],
    },
    {
        "name": "encoder_loop_optimizer",
        "program": "torch_encoder.py",
        "what": "AdamW is replaced by a hand-written optimizer that loops over parameters with many temporaries.",
        "kind": "optimizer loop",
        "replace": [
            (
                "def make_data(n, cfg, seed):\n",
                "class MyAdamW(torch.optim.Optimizer):\n"
                "    def __init__(self, params, lr, weight_decay):\n"
                "        super().__init__(params, dict(lr=lr, weight_decay=weight_decay))\n"
                "\n"
                "    @torch.no_grad()\n"
                "    def step(self):\n"
                "        for group in self.param_groups:\n"
                "            for p in group['params']:\n"
                "                s = self.state[p]\n"
                "                if not s:\n"
                "                    s['t'], s['m'], s['v'] = 0, torch.zeros_like(p), torch.zeros_like(p)\n"
                "                s['t'] += 1\n"
                "                s['m'] = 0.9 * s['m'] + 0.1 * p.grad\n"
                "                s['v'] = 0.999 * s['v'] + 0.001 * torch.pow(p.grad, 2)\n"
                "                m_hat = s['m'] / (1 - 0.9 ** s['t'])\n"
                "                v_hat = s['v'] / (1 - 0.999 ** s['t'])\n"
                "                decay = group['weight_decay'] * p\n"
                "                update = m_hat / (torch.sqrt(v_hat) + 1e-8)\n"
                "                p.copy_(p - group['lr'] * (update + decay))\n"
                "\n\n"
                "def make_data(n, cfg, seed):\n",
            ),
            ("opt = torch.optim.AdamW(model", "opt = MyAdamW(model"),
        ],
    },
    {
        "name": "encoder_eval_every_step",
        "program": "torch_encoder.py",
        "what": "The accuracy on test examples is computed after every step.",
        "kind": "extra validation",
        "replace": [
            ("        if step % 100 == 0:\n", "        acc = accuracy(model, test_x[:20], test_y[:20])\n        if step % 100 == 0:\n"),
            ("log.info(\"step %d test acc %.3f\", step, accuracy(model, test_x, test_y))", "log.info(\"step %d test acc %.3f\", step, acc)"),
        ],
    },
    # ------------------------------------------------------------------ torch_vae
    {
        "name": "vae_double_layer",
        "program": "torch_vae.py",
        "what": "The first transposed convolution of the decoder runs in float64.",
        "kind": "precision, float64",
        "replace": [
            ("        self.t1 = nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1)\n",
             "        self.t1 = nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1).double()\n"),
            ("        h = F.relu(self.t1(h))\n", "        h = F.relu(self.t1(h.double())).float()\n"),
        ],
    },
    {
        "name": "vae_one_thread",
        "program": "torch_vae.py",
        "what": "torch.set_num_threads(1) leaves one core idle.",
        "kind": "threads",
        "replace": [("torch.manual_seed(0)\n", "torch.set_num_threads(1)\ntorch.manual_seed(0)\n")],
    },
    {
        "name": "vae_loss_per_sample",
        "program": "torch_vae.py",
        "what": "The loss is summed over the samples in a Python loop.",
        "kind": "Python loop, loss",
        "replace": [(
            "    rec = F.binary_cross_entropy_with_logits(recon, x, reduction=\"sum\")\n"
            "    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())\n",
            "    rec, kl = 0.0, 0.0\n"
            "    for i in range(x.size(0)):\n"
            "        p = torch.sigmoid(recon[i]).clamp(1e-6, 1 - 1e-6)\n"
            "        rec = rec - (x[i] * torch.log(p) + (1 - x[i]) * torch.log(1 - p)).sum()\n"
            "        # KL of each group of latents\n"
            "        for m, lv in zip(mu[i].chunk(4), logvar[i].chunk(4)):\n"
            "            kl = kl - 0.5 * torch.sum(1 + lv - m.pow(2) - lv.exp())\n",
        )],
    },
    {
        "name": "vae_small_batches",
        "program": "torch_vae.py",
        "what": "Eight micro-batches of 6 are accumulated instead of one batch of 48.",
        "kind": "small batches, accumulation",
        "replace": [
            ("BATCH = 48\n", "BATCH = 6\n"),
            ("ACCUM = 1          #", "ACCUM = 8          #"),
        ],
    },
    {
        "name": "vae_batch_last",
        "program": "torch_vae.py",
        "what": "Images and activations are kept as permuted views with the batch dimension innermost, so every convolution reads non-contiguous memory.",
        "kind": "non-contiguous tensors",
        "replace": [
            (
                "class Encoder(nn.Module):\n",
                "def batch_last(t):\n"
                "    # (N, C, H, W) view of data stored as (C, H, W, N), as in the .mat files\n"
                "    return t.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2)\n"
                "\n\n"
                "class Encoder(nn.Module):\n",
            ),
            ("        h = F.relu(self.c1(x))\n        h = F.relu(self.c2(h))\n",
             "        h = batch_last(F.relu(self.c1(batch_last(x))))\n        h = batch_last(F.relu(self.c2(h)))\n"),
            ("        h = F.relu(self.t1(h))\n        h = F.relu(self.t2(h))\n        return self.out(h)\n",
             "        h = F.relu(batch_last(self.t1(batch_last(h))))\n"
             "        h = F.relu(batch_last(self.t2(h)))\n        return batch_last(self.out(h))\n"),
        ],
    },
    # ------------------------------------------------------------------ torch_gan
    {
        "name": "gan_no_onednn",
        "program": "torch_gan.py",
        "what": "oneDNN is switched off, so convolutions take the slow native path.",
        "kind": "backend setting",
        "replace": [("    torch.manual_seed(3)\n", "    torch.backends.mkldnn.enabled = False\n    torch.manual_seed(3)\n")],
    },
    {
        "name": "gan_checkpoint_every_step",
        "program": "torch_gan.py",
        "what": "Both networks, the optimizers, a log line and sample images are written to disk in every iteration.",
        "kind": "disk writes",
        "replace": [(
            "        if i % 50 == 0:\n",
            "        torch.save({'G': netG.state_dict(), 'D': netD.state_dict(), 'optG': optG.state_dict(),\n"
            "                    'optD': optD.state_dict(), 'iter': i}, 'last.pt')\n"
            "        if i == 0 or errG.item() < 1e9:\n"
            "            torch.save({'G': netG.state_dict(), 'D': netD.state_dict(), 'iter': i}, 'best.pt')\n"
            "        with open('log.txt', 'a') as f:\n"
            "            f.write(f'{i} {errD_real.item()} {errD_fake.item()} {errG.item()}\\n')\n"
            "        with torch.no_grad(), open('samples.txt', 'w') as f:\n"
            "            for im in netG(fixed_noise).flatten(1).tolist():\n"
            "                f.write(' '.join('%.4f' % v for v in im) + '\\n')\n"
            "        if i % 50 == 0:\n",
        )],
    },
    {
        "name": "gan_retain_graph",
        "program": "torch_gan.py",
        "what": "The discriminator's losses go backward twice (graphs retained), the second time also through the generator.",
        "kind": "repeated backward",
        "replace": [
            ("        errD_real.backward()\n", "        errD_real.backward(retain_graph=True)\n"),
            ("        errD_fake = criterion(netD(fake.detach()), zeros)\n        errD_fake.backward()\n",
             "        errD_fake = criterion(netD(fake), zeros)\n"
             "        errD_fake.backward(retain_graph=True)\n"
             "        netD.zero_grad()\n"
             "        errD = errD_real + errD_fake\n"
             "        errD.backward(retain_graph=True)\n"),
        ],
    },
    # ------------------------------------------------------------------ keras_fit
    {
        "name": "keras_eager",
        "program": "keras_fit.py",
        "what": "The model is compiled with run_eagerly=True.",
        "kind": "eager execution",
        "replace": [("        metrics=[\"accuracy\"],\n    )\n", "        metrics=[\"accuracy\"],\n        run_eagerly=True,\n    )\n")],
    },
    {
        "name": "keras_py_function",
        "program": "keras_fit.py",
        "what": "The tf.data map calls Python code through tf.numpy_function for each image.",
        "kind": "data loading, Python in tf.data",
        "replace": [
            (
                "def augment(image, label):\n    image = tf.cast(image, tf.float32) / 255.0\n",
                "def jitter_np(image):\n"
                "    \"\"\"Smooth the image, change contrast and cut a random hole.\"\"\"\n"
                "    image = image.astype(np.float32) / 255.0\n"
                "    for _ in range(3):\n"
                "        acc = np.zeros_like(image)\n"
                "        for dy in (-1, 0, 1):\n"
                "            for dx in (-1, 0, 1):\n"
                "                acc += np.roll(image, (dy, dx), axis=(0, 1))\n"
                "        image = 0.5 * image + 0.5 * acc / 9.0\n"
                "    image = (image - image.mean()) * np.random.uniform(0.8, 1.2) + image.mean()\n"
                "    t, l = np.random.randint(0, IMG - 8, 2)\n"
                "    image[t:t + 8, l:l + 8] = 0.5\n"
                "    return image.astype(np.float32)\n"
                "\n\n"
                "def augment(image, label):\n"
                "    image = tf.numpy_function(jitter_np, [image], tf.float32)\n"
                "    image = tf.ensure_shape(image, (IMG, IMG, 3))\n",
            ),
        ],
    },
    {
        "name": "keras_validate_each_batch",
        "program": "keras_fit.py",
        "what": "A callback predicts on validation images after every batch.",
        "kind": "extra validation",
        "replace": [
            (
                "def main():\n",
                "class BatchValidation(keras.callbacks.Callback):\n"
                "    def __init__(self, x, y):\n"
                "        super().__init__()\n"
                "        self.x, self.y = tf.constant(x, tf.float32) / 255.0, y\n"
                "        self.history = []\n"
                "\n"
                "    def on_train_batch_end(self, batch, logs=None):\n"
                "        probs = self.model(self.x, training=False)\n"
                "        self.history.append(float(np.mean(np.argmax(probs, -1) == self.y)))\n"
                "\n\n"
                "def main():\n",
            ),
            ("    callbacks = [\n", "    callbacks = [\n        BatchValidation(x_val[:64], y_val[:64]),\n"),
        ],
    },
    {
        "name": "keras_more_layers",
        "program": "keras_fit.py",
        "what": "A further convolution block at full resolution was added to the model.",
        "kind": "more work",
        "replace": [(
            "    x = layers.MaxPooling2D()(x)\n    x = layers.Conv2D(48, 3",
            "    x = layers.Conv2D(24, 3, padding=\"same\", use_bias=False)(x)\n"
            "    x = layers.BatchNormalization()(x)\n"
            "    x = layers.Activation(\"relu\")(x)\n"
            "    x = layers.MaxPooling2D()(x)\n    x = layers.Conv2D(48, 3",
        )],
    },
    # ------------------------------------------------------------------ tf_loop
    {
        "name": "tf_numpy_function_map",
        "program": "tf_loop.py",
        "what": "Each text passes through a Python word-dropout and synonym function called with tf.numpy_function, and nothing is prefetched.",
        "kind": "data loading, Python in tf.data",
        "replace": [(
            "train_ds = train_ds.shuffle(5000, seed=5).repeat()\n",
            "\n\ndef word_dropout(tokens):\n"
            "    # drop words, replace a few at random, and sometimes swap neighbours\n"
            "    out = [int(t) if rng.random() > 0.1 else 0 for t in tokens]\n"
            "    for i in range(len(out)):\n"
            "        # near-synonym with falling probability\n"
            "        shift = rng.choice(5, p=[0.9, 0.04, 0.03, 0.02, 0.01])\n"
            "        out[i] = min(out[i] + int(shift), VOCAB - 1)\n"
            "    for i in range(len(out) - 1):\n"
            "        if rng.random() < 0.05:\n"
            "            j = i + int(rng.integers(1, 3))\n"
            "            if j < len(out):\n"
            "                out[i], out[j] = out[j], out[i]\n"
            "    return np.array(out, dtype=np.int32)\n"
            "\n\n"
            "def tf_word_dropout(tokens, label):\n"
            "    tokens = tf.numpy_function(word_dropout, [tokens], tf.int32)\n"
            "    tokens.set_shape((MAX_LEN,))\n"
            "    return tokens, label\n"
            "\n\n"
            "train_ds = train_ds.shuffle(5000, seed=5).repeat().map(tf_word_dropout)\n",
        ), ("train_ds = train_ds.prefetch(2)\n", "")],
    },
    {
        "name": "tf_monte_carlo_forward",
        "program": "tf_loop.py",
        "what": "The logits are averaged over two dropout samples, so the whole forward pass runs twice in training.",
        "kind": "repeated forward",
        "replace": [(
            "        logits = model(text, training=True)\n",
            "        # Monte-Carlo dropout\n"
            "        logits = tf.reduce_mean(\n"
            "            tf.stack([model(text, training=True) for _ in range(2)]), axis=0)\n",
        )],
    },
    {
        "name": "tf_retrace",
        "program": "tf_loop.py",
        "what": "A tf.function gets the step number as a Python integer and is traced again in every step.",
        "kind": "retracing",
        "replace": [
            (
                "def run_test():\n",
                "@tf.function\n"
                "def scheduled_rate(step):\n"
                "    warm = tf.minimum(1.0, (step + 1.0) / 50.0)\n"
                "    decay = 0.5 * (1.0 + tf.cos(np.pi * tf.minimum(1.0, step / float(NUM_STEPS))))\n"
                "    return LEARNING_RATE * warm * (0.1 + 0.9 * decay)\n"
                "\n\n"
                "def run_test():\n",
            ),
            (
                "    loss = train_step(text, labels)\n",
                "    optimizer.learning_rate.assign(scheduled_rate(step))\n    loss = train_step(text, labels)\n",
            ),
        ],
    },
    {
        "name": "tf_second_gru",
        "program": "tf_loop.py",
        "what": "A second GRU layer was stacked on the first.",
        "kind": "more work",
        "replace": [
            (
                "        self.gru = tf.keras.layers.GRU(UNITS, return_sequences=True)\n",
                "        self.gru = tf.keras.layers.GRU(UNITS, return_sequences=True)\n"
                "        self.gru2 = tf.keras.layers.GRU(UNITS, return_sequences=True)\n",
            ),
            (
                "        x = self.gru(x, training=training)\n",
                "        x = self.gru(x, training=training)\n        x = self.gru2(x, training=training)\n",
            ),
        ],
    },
    # ------------------------------------------------------------------ jax_cnn
    {
        "name": "jax_no_jit",
        "program": "jax_cnn.py",
        "what": "The training step is not jitted.",
        "kind": "no compilation",
        "replace": [
            ("@partial(jax.jit, static_argnames=(\"momentum\",))\ndef train_step", "def train_step"),
            ("from functools import partial\n", ""),
        ],
    },
    {
        "name": "jax_new_lambda",
        "program": "jax_cnn.py",
        "what": "A new jitted lambda normalises the batch in every step, so it is compiled every time.",
        "kind": "recompilation",
        "replace": [(
            "        x, y = next(stream)\n",
            "        x, y = next(stream)\n"
            "        mean, std = float(x.mean()), float(x.std())\n"
            "        x = jax.jit(lambda a: (a - mean) / (std + 1e-6))(x)\n",
        )],
    },
    {
        "name": "jax_host_statistics",
        "program": "jax_cnn.py",
        "what": "After every step the program waits for the result, copies all parameters to numpy and computes statistics there.",
        "kind": "synchronisation, host statistics",
        "replace": [(
            "        if step % 50 == 0:\n",
            "        loss.block_until_ready()\n"
            "        stats = {}\n"
            "        for tree, tag in ((params, 'p'), (velocity, 'v')):\n"
            "            for path, leaf in jax.tree_util.tree_leaves_with_path(tree):\n"
            "                a = np.asarray(leaf)\n"
            "                hist, _ = np.histogram(a, bins=30)\n"
            "                spectral = np.linalg.norm(a.reshape(-1, a.shape[-1]), 2)\n"
            "                stats[tag + str(path)] = (a.mean(), a.std(), spectral, np.median(np.abs(a)),\n"
            "                                          np.percentile(a, [5, 50, 95]), hist)\n"
            "        pix = np.asarray(x)\n"
            "        stats['input'] = (np.percentile(pix, [1, 50, 99]), np.histogram(pix, bins=50)[0])\n"
            "        if step % 50 == 0:\n",
        )],
    },
    {
        "name": "jax_slow_generator",
        "program": "jax_cnn.py",
        "what": "The numpy generator shifts and blurs every image of the batch in a Python loop.",
        "kind": "data loading, Python loop",
        "replace": [(
            "            yield x[take], y[take]\n",
            "            xb = x[take].copy()\n"
            "            for i in range(size):\n"
            "                img = np.roll(xb[i], rng.integers(-3, 4, 2), axis=(0, 1))\n"
            "                for _ in range(16):  # diffusion\n"
            "                    pad = np.pad(img, ((1, 1), (1, 1), (0, 0)), mode=\"edge\")\n"
            "                    img = (pad[:-2, 1:-1] + pad[2:, 1:-1] + pad[1:-1, :-2] + pad[1:-1, 2:]\n"
            "                           + 4 * pad[1:-1, 1:-1]) / 8\n"
            "                xb[i] = img + 0.05 * rng.standard_normal(img.shape)\n"
            "            yield xb, y[take]\n",
        )],
    },
    # ------------------------------------------------------------------ flax_encoder
    {
        "name": "flax_static_argument",
        "program": "flax_encoder.py",
        "what": "The batch passes through a small jitted helper whose static argument changes in every step, so the helper is compiled every time.",
        "kind": "recompilation, changing argument",
        "replace": [
            (
                "def synth(cfg, n, seed):\n",
                "@partial(jax.jit, static_argnames=(\"limit\",))\n"
                "def cap_tokens(ids, limit):\n"
                "    return jnp.minimum(ids, limit)\n"
                "\n\n"
                "def synth(cfg, n, seed):\n",
            ),
            ("import sys\n", "import sys\nfrom functools import partial\n"),
            (
                "        loss = train_step(model, optimizer, metrics, batch_ids, batch_labels)\n",
                "        # vocabulary grows during training\n"
                "        batch_ids = cap_tokens(batch_ids, limit=cfg.vocab // 2 + step)\n"
                "        loss = train_step(model, optimizer, metrics, batch_ids, batch_labels)\n",
            ),
        ],
    },
    {
        "name": "flax_eval_every_step",
        "program": "flax_encoder.py",
        "what": "The test set is evaluated after every step.",
        "kind": "extra validation",
        "replace": [
            (
                "        if step % 100 == 0:\n            acc = eval_step(model, test_ids, test_labels)\n",
                "        acc = float(eval_step(model, test_ids, test_labels))\n        if step % 100 == 0:\n",
            ),
        ],
    },
    {
        "name": "flax_more_blocks",
        "program": "flax_encoder.py",
        "what": "The encoder has four blocks instead of two.",
        "kind": "more work",
        "replace": [("    n_layers: int = 2\n", "    n_layers: int = 4\n")],
    },
    # ------------------------------------------------------------------ mxnet_gluon
    {
        "name": "mxnet_no_hybridize",
        "program": "mxnet_gluon.py",
        "what": "The network is not hybridized and stays imperative.",
        "kind": "no graph compilation",
        "replace": [("    net.hybridize()\n", "")],
    },
    {
        "name": "mxnet_heavy_transform",
        "program": "mxnet_gluon.py",
        "what": "The transform applies an elastic-like warp to each image one image at a time.",
        "kind": "data loading, heavy transform",
        "replace": [(
            "    data = data.transpose(2, 0, 1).astype('float32') / 255\n",
            "    data = data.transpose(2, 0, 1).astype('float32') / 255\n"
            "    # elastic-like warp\n"
            "    shift = np.random.uniform(-1, 1, (2, 28, 28))\n"
            "    for _ in range(8):\n"
            "        shift = (shift + np.roll(shift, 1, 1) + np.roll(shift, -1, 1)\n"
            "                 + np.roll(shift, 1, 2) + np.roll(shift, -1, 2)) / 5\n"
            "    yy, xx = np.meshgrid(np.arange(28), np.arange(28), indexing='ij')\n"
            "    ys = np.clip(np.rint(yy + 4 * shift[0]), 0, 27).astype(int)\n"
            "    xs = np.clip(np.rint(xx + 4 * shift[1]), 0, 27).astype(int)\n"
            "    data = data[:, ys, xs]\n",
        )],
    },
    {
        "name": "mxnet_asnumpy_statistics",
        "program": "mxnet_gluon.py",
        "what": "Loss, outputs, weights and gradients are copied with .asnumpy() in every step and summarised in numpy.",
        "kind": "synchronisation, host statistics",
        "replace": [(
            "            metric.update(0, [loss])\n",
            "            metric.update(0, [loss])\n"
            "            probs = nd.softmax(output).asnumpy()\n"
            "            summary = {'loss': float(loss.mean().asscalar()),\n"
            "                       'entropy': -(probs * np.log(probs + 1e-9)).sum(1).mean()}\n"
            "            for name, param in net.collect_params().items():\n"
            "                w = param.data().asnumpy()\n"
            "                summary[name] = (w.mean(), w.std(), np.percentile(w, [5, 25, 50, 75, 95]))\n"
            "                if param.grad_req != 'null':\n"
            "                    g = param.grad().asnumpy()\n"
            "                    summary[name + '_grad'] = (np.linalg.norm(g), np.histogram(g, bins=40)[0])\n"
            "            pixels = data.asnumpy()\n"
            "            summary['pixels'] = (pixels.mean(), np.percentile(pixels, [1, 50, 99]))\n",
        )],
    },
]

CONTROLS = [
    {
        "name": "control_images_rename",
        "program": "torch_images.py",
        "what": "Renames the local variable of the forward pass and adds a comment.",
        "kind": "no effect",
        "replace": [
            (
                "        x = F.relu(self.bn(self.stem(x)))\n        x = self.layer1(x)\n",
                "        # stem, then three stages\n        feats = F.relu(self.bn(self.stem(x)))\n        x = self.layer1(feats)\n",
            ),
        ],
    },
    {
        "name": "control_wordlm_comment",
        "program": "torch_wordlm.py",
        "what": "Adds comments around the hand-written update and renames its loop variable.",
        "kind": "no effect",
        "replace": [
            (
                "        for p in model.parameters():\n            p.data.add_(p.grad, alpha=-lr)\n",
                "        # plain SGD, no momentum\n        for weight in model.parameters():\n            weight.data.add_(weight.grad, alpha=-lr)\n",
            ),
        ],
    },
    {
        "name": "control_vae_reorder",
        "program": "torch_vae.py",
        "what": "Swaps two independent lines of the encoder's constructor and of the loss.",
        "kind": "no effect",
        "replace": [
            (
                "    rec = F.binary_cross_entropy_with_logits(recon, x, reduction=\"sum\")\n"
                "    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())\n",
                "    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())\n"
                "    rec = F.binary_cross_entropy_with_logits(recon, x, reduction=\"sum\")\n",
            ),
        ],
    },
    {
        "name": "control_keras_print",
        "program": "keras_fit.py",
        "what": "Prints a few facts before training.",
        "kind": "no effect",
        "replace": [
            (
                "    history = model.fit(\n",
                "    print(\"training on\", len(x_train), \"images, batch\", args.batch)\n"
                "    print(\"keras\", keras.__version__, \"tensorflow\", tf.__version__)\n"
                "    history = model.fit(\n",
            ),
        ],
    },
    {
        "name": "control_jax_reorder",
        "program": "jax_cnn.py",
        "what": "Reorders the creation of test and training data and prints the number of parameters once.",
        "kind": "no effect",
        "replace": [
            (
                "    x_train, y_train = make_images(4096, seed=1)\n    x_test, y_test = make_images(128, seed=2)\n",
                "    x_test, y_test = make_images(128, seed=2)\n    x_train, y_train = make_images(4096, seed=1)\n"
                "    print(\"parameters:\", sum(p.size for p in jax.tree.leaves(params)))\n",
            ),
        ],
    },
    {
        "name": "control_mxnet_rename",
        "program": "mxnet_gluon.py",
        "what": "Renames the variables of the training loop and splits a line.",
        "kind": "no effect",
        "replace": [
            (
                "                output = net(data)\n                loss = loss_fn(output, label)\n",
                "                scores = net(data)\n                output = scores\n                loss = loss_fn(scores, label)\n",
            ),
        ],
    },
]
