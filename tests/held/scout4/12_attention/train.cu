#include <cstdio>
#include <random>

#include "model.h"

// The class is told by one token (0..3) somewhere among random others (4..39).
static void sample(std::mt19937 &gen, const Config &cfg, std::vector<int> &tokens, std::vector<int> &labels) {
  for (int s = 0; s < cfg.batch; s++) {
    for (int l = 0; l < cfg.seq_len; l++) tokens[s * cfg.seq_len + l] = cfg.classes + gen() % (cfg.vocab - cfg.classes);
    labels[s] = gen() % cfg.classes;
    tokens[s * cfg.seq_len + gen() % cfg.seq_len] = labels[s];
  }
}

int main() {
  Config cfg;
  AttentionClassifier model(cfg);
  std::mt19937 gen(77);
  std::vector<int> tokens(cfg.batch * cfg.seq_len), labels(cfg.batch);
  for (int step = 1; step <= cfg.steps; step++) {
    sample(gen, cfg, tokens, labels);
    model.forward(tokens, labels);
    model.backward();
    model.step();
    if (step % 10 == 0 || step == 1)
      std::printf("step %3d loss %.4f acc %.3f\n", step, model.loss(), model.correct() / (float)cfg.batch);
  }
  return 0;
}
