#include "model.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "kernels.cuh"

namespace {
void ok(cudaError_t e) {
  if (e != cudaSuccess) {
    std::printf("CUDA: %s\n", cudaGetErrorString(e));
    std::exit(1);
  }
}
Tensor make(int n) {
  Tensor t;
  t.n = n;
  ok(cudaMalloc(&t.data, n * sizeof(float)));
  ok(cudaMemset(t.data, 0, n * sizeof(float)));
  return t;
}
inline int blk(int n) { return (n + 127) / 128; }
}  // namespace

void AttentionClassifier::add_param(const std::string &name, int n, float scale) {
  std::vector<float> h(n);
  for (float &x : h) {
    seed_ = seed_ * 1664525u + 1013904223u;
    x = ((seed_ >> 8) / 16777216.0f * 2 - 1) * scale;
  }
  names_.push_back(name);
  params_[name] = make(n);
  grads_[name] = make(n);
  m_[name] = make(n);
  v_[name] = make(n);
  ok(cudaMemcpy(params_[name].data, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
}

AttentionClassifier::AttentionClassifier(const Config &cfg) : cfg_(cfg) {
  const int D = cfg.dim, L = cfg.seq_len, B = cfg.batch, C = cfg.classes;
  add_param("tok_emb", cfg.vocab * D, 0.5f);
  add_param("pos_emb", L * D, 0.1f);
  for (const char *w : {"wq", "wk", "wv", "wo"}) add_param(w, D * D, std::sqrt(3.0f / D));
  add_param("head_w", D * C, std::sqrt(3.0f / D));
  add_param("head_b", C, 0.0f);

  for (const char *a : {"x", "q", "k", "v", "o", "r", "dx", "dq", "dk", "dv", "do", "dr"}) acts_[a] = make(B * L * D);
  acts_["att"] = make(B * L * L);
  acts_["ds"] = make(B * L * L);
  acts_["pool"] = make(B * D);
  acts_["dpool"] = make(B * D);
  acts_["dlogit"] = make(B * C);
  acts_["loss"] = make(1);
  ok(cudaMalloc(&tokens_, B * L * sizeof(int)));
  ok(cudaMalloc(&labels_, B * sizeof(int)));
  ok(cudaMalloc(&correct_, sizeof(int)));
}

AttentionClassifier::~AttentionClassifier() {
  for (auto *map : {&params_, &grads_, &m_, &v_, &acts_})
    for (auto &kv : *map) cudaFree(kv.second.data);
  cudaFree(tokens_);
  cudaFree(labels_);
  cudaFree(correct_);
}

void AttentionClassifier::forward(const std::vector<int> &tokens, const std::vector<int> &labels) {
  const int D = cfg_.dim, L = cfg_.seq_len, B = cfg_.batch, C = cfg_.classes, R = B * L;
  ok(cudaMemcpy(tokens_, tokens.data(), R * sizeof(int), cudaMemcpyHostToDevice));
  ok(cudaMemcpy(labels_, labels.data(), B * sizeof(int), cudaMemcpyHostToDevice));
  ok(cudaMemset(A("loss").data, 0, sizeof(float)));
  ok(cudaMemset(correct_, 0, sizeof(int)));

  embed<<<blk(R * D), 128>>>(tokens_, P("tok_emb").data, P("pos_emb").data, A("x").data, R, L, D);
  mm<<<blk(R * D), 128>>>(A("x").data, P("wq").data, A("q").data, R, D, D);
  mm<<<blk(R * D), 128>>>(A("x").data, P("wk").data, A("k").data, R, D, D);
  mm<<<blk(R * D), 128>>>(A("x").data, P("wv").data, A("v").data, R, D, D);
  attention<<<B, L>>>(A("q").data, A("k").data, A("v").data, A("att").data, A("o").data, L, D);
  mm<<<blk(R * D), 128>>>(A("o").data, P("wo").data, A("r").data, R, D, D);
  pool_mean<<<blk(B * D), 128>>>(A("r").data, A("pool").data, B, L, D);
  classify<<<blk(B), 128>>>(A("pool").data, P("head_w").data, P("head_b").data, labels_, A("dlogit").data,
                            A("loss").data, correct_, B, D, C);
}

void AttentionClassifier::backward() {
  const int D = cfg_.dim, L = cfg_.seq_len, B = cfg_.batch, C = cfg_.classes, R = B * L;
  ok(cudaMemset(G("tok_emb").data, 0, G("tok_emb").n * sizeof(float)));
  ok(cudaMemset(G("pos_emb").data, 0, G("pos_emb").n * sizeof(float)));

  mm_tn<<<blk(D * C), 128>>>(A("pool").data, A("dlogit").data, G("head_w").data, B, D, C);
  col_sum<<<1, 32>>>(A("dlogit").data, G("head_b").data, B, C);
  mm_nt<<<blk(B * D), 128>>>(A("dlogit").data, P("head_w").data, A("dpool").data, B, C, D, false);
  pool_mean_backward<<<blk(R * D), 128>>>(A("dpool").data, A("dr").data, B, L, D);
  mm_tn<<<blk(D * D), 128>>>(A("o").data, A("dr").data, G("wo").data, R, D, D);
  mm_nt<<<blk(R * D), 128>>>(A("dr").data, P("wo").data, A("do").data, R, D, D, false);
  attention_backward<<<B, L>>>(A("q").data, A("k").data, A("v").data, A("att").data, A("do").data, A("ds").data,
                               A("dq").data, A("dk").data, A("dv").data, L, D);
  mm_tn<<<blk(D * D), 128>>>(A("x").data, A("dq").data, G("wq").data, R, D, D);
  mm_tn<<<blk(D * D), 128>>>(A("x").data, A("dk").data, G("wk").data, R, D, D);
  mm_tn<<<blk(D * D), 128>>>(A("x").data, A("dv").data, G("wv").data, R, D, D);
  mm_nt<<<blk(R * D), 128>>>(A("dq").data, P("wq").data, A("dx").data, R, D, D, false);
  mm_nt<<<blk(R * D), 128>>>(A("dk").data, P("wk").data, A("dx").data, R, D, D, true);
  mm_nt<<<blk(R * D), 128>>>(A("dv").data, P("wv").data, A("dx").data, R, D, D, true);
  embed_backward<<<blk(R * D), 128>>>(tokens_, A("dx").data, G("tok_emb").data, G("pos_emb").data, R, L, D);
}

void AttentionClassifier::step() {
  ++t_;
  float rate = cfg_.lr * std::sqrt(1 - std::pow(0.99f, t_)) / (1 - std::pow(0.9f, t_));
  for (const std::string &name : names_) {
    int n = P(name).n;
    adam_update<<<blk(n), 128>>>(P(name).data, G(name).data, m_[name].data, v_[name].data, rate, n);
  }
  ok(cudaGetLastError());
}

float AttentionClassifier::loss() const {
  float h;
  ok(cudaMemcpy(&h, acts_.at("loss").data, sizeof h, cudaMemcpyDeviceToHost));
  return h;
}

int AttentionClassifier::correct() const {
  int h;
  ok(cudaMemcpy(&h, correct_, sizeof h, cudaMemcpyDeviceToHost));
  return h;
}
