#!/usr/bin/env python3
"""Builds each program, runs it twice; checks exit status, time, equal output (to 1e-3), no nan, and that the loss falls.
usage: check.py [--no-build]; NVCC names the compiler."""
import glob, os, re, subprocess, sys, time
# program: (pattern of the loss, last must be below this fraction of the first)
P = {
 '01': (r'Loss: (\S+),', .1), '02': (r'cost (\S+)', .3), '03': (r'error: (\S+)', .8), '04': (r'smoothed (\S+)', .3),
 '05': (r'Cost: (\S+)', .3), '06': (r'batch mse ([^,]+)', .5), '07': (r'loss: (\S+)', .2), '08': (r'train rmse (\S+)', .3),
 '09': (r'mse (\S+)', .1), '10': (r'ELBO (\S+)', .8), '11': (r'means (\S+)', .5), '12': (r'pair (\S+)', .7),
 '13': (r'objective (\S+),', .5), '14': (r'running (\S+)', .2), '15': (r'train loss (\S+)', .5), '16': (r'loss (\S+)', .1),
 '17': (r'energy (\S+)', .2), '18': (r'\d: loss (\S+),', .2), '19': (r'loss (\S+)', .1), '20': (r'train mse (\S+)', .4),
}
bad = 0
for d in sorted(glob.glob('[0-9][0-9]_*')):
    pat, frac = P[d[:2]]
    if '--no-build' not in sys.argv:
        subprocess.check_call(['sh', 'build.sh'], cwd=d)
    outs, secs = [], []
    for _ in range(2):
        t = time.time()
        r = subprocess.run(['./train'], cwd=d, capture_output=True, text=True)
        secs.append(time.time() - t)
        outs.append(r)
    num = [[float(x) for x in re.findall(r'(?<![\w.])-?\d+\.?\d*(?:e[-+]?\d+)?', o.stdout)] for o in outs]
    v = [float(x) for x in re.findall(pat, outs[0].stdout)]
    same = outs[0].stdout == outs[1].stdout
    close = len(num[0]) == len(num[1]) and all(abs(a - b) <= 1e-3 * max(1, abs(a)) for a, b in zip(*num))
    ok = all(o.returncode == 0 for o in outs) and close and len(v) > 2 and v[-1] < frac * v[0] and 'nan' not in outs[0].stdout and min(secs) < 3
    bad += not ok
    print('%-24s %s  %d values, %g -> %g  %s  %.2f s' % (d, 'ok ' if ok else 'BAD', len(v), v[0], v[-1], 'identical' if same else 'close' if close else 'DIFFERS', min(secs)))
sys.exit(bad != 0)
