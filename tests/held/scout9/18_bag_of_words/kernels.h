#pragma once
#include <cuda_runtime.h>

// documents in compressed form: the words of document d are word[start[d] - first .. start[d + 1] - first)
void bagForward(const float *emb, const int *word, const int *start, int first, float *bag, int docs, int dim);
void bagBackward(float *gEmb, const int *word, const int *start, int first, const float *gBag, int docs, int dim);
void outputForward(const float *bag, const float *w, const float *b, float *prob, int docs, int dim, int classes);
void lossBackward(float *prob, const int *label, float *loss, int *hits, int docs, int classes);
void outputBackward(const float *bag, const float *w, const float *g, float *gW, float *gB, float *gBag, int docs, int dim, int classes);
void adagradStep(float *w, const float *g, float *acc, int n, float lr);
