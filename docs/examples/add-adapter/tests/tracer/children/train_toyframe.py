"""A script of toyframe that knows nothing of us: the number of steps, and train, infer or validate (every 7th step)."""

import random
import sys

from toyframe import Dense, Net, Tanh, train_step

draw = random.Random(0)
net = Net(Dense("in", 16, 32), Tanh("tanh"), Dense("out", 32, 4))
for number in range(int(sys.argv[1])):
    batch = [[draw.gauss(0, 1) for _ in range(16)] for _ in range(8)]
    if sys.argv[2] == "infer":
        print(number, net(batch)[0])
        continue
    print(number, train_step(net, batch, [row[:4] for row in batch]))
    if sys.argv[2] == "validate" and number % 7 == 6:
        print("validation", net(batch)[0])
