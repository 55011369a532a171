/*
 * Multi-class linear SVM (one-vs-rest hinge) on the GPU.
 * usage: ./train [file.csv [batch [iterations]]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cuda_runtime.h>

#define MAXCLASS 16
#define THREADS 64

struct dataset {
	int n, d, classes;
	float *x;	/* n * d */
	int *y;
};

struct svm {
	int d, classes;
	float C, eta;
	float *w;	/* device, classes * (d + 1) */
	float *g;	/* device, same shape */
	float *margin;	/* device, batch * classes */
	float *loss;	/* device, batch */
};

static void die(const char *msg)
{
	fprintf(stderr, "svm: %s\n", msg);
	exit(1);
}

static void read_csv(const char *name, struct dataset *ds)
{
	FILE *f = fopen(name, "r");
	char line[4096];
	int cap = 256, i;
	if (!f)
		die("cannot open data");
	ds->n = ds->d = ds->classes = 0;
	ds->x = NULL;
	ds->y = (int *)malloc(cap * sizeof(int));
	while (fgets(line, sizeof line, f)) {
		char *p = line, *end;
		if (ds->d == 0) {
			for (i = 0; line[i]; i++)
				ds->d += line[i] == ',';
			ds->x = (float *)malloc((size_t)cap * ds->d * sizeof(float));
		}
		if (ds->n == cap) {
			cap *= 2;
			ds->x = (float *)realloc(ds->x, (size_t)cap * ds->d * sizeof(float));
			ds->y = (int *)realloc(ds->y, cap * sizeof(int));
		}
		for (i = 0; i < ds->d; i++) {
			ds->x[(size_t)ds->n * ds->d + i] = strtof(p, &end) / 10.0f;
			p = end + 1;
		}
		ds->y[ds->n] = atoi(p);
		if (ds->y[ds->n] >= ds->classes)
			ds->classes = ds->y[ds->n] + 1;
		ds->n++;
	}
	fclose(f);
	if (ds->n == 0 || ds->classes > MAXCLASS)
		die("bad data");
}

/* one thread per sample; margin[b][c] becomes -t if the hinge is active, else 0 */
__global__ void hinge(const float *x, const int *y, const float *w, float *margin, float *loss,
		      int n, int d, int classes)
{
	int b = blockIdx.x * blockDim.x + threadIdx.x;
	float l = 0;
	if (b >= n)
		return;
	for (int c = 0; c < classes; c++) {
		const float *wc = w + c * (d + 1);
		float t = y[b] == c ? 1.0f : -1.0f, s = wc[d];
		for (int j = 0; j < d; j++)
			s += wc[j] * x[b * d + j];
		margin[b * classes + c] = t * s < 1 ? -t : 0;
		l += fmaxf(0.0f, 1 - t * s);
	}
	loss[b] = l;
}

/* g = w + C * sum over the batch of the hinge's subgradient */
__global__ void subgradient(const float *x, const float *w, const float *margin, float *g, float C,
			    int n, int d, int classes)
{
	int k = blockIdx.x * blockDim.x + threadIdx.x;
	if (k >= classes * (d + 1))
		return;
	int c = k / (d + 1), j = k % (d + 1);
	float s = 0;
	for (int b = 0; b < n; b++)
		s += margin[b * classes + c] * (j < d ? x[b * d + j] : 1.0f);
	g[k] = (j < d ? w[k] : 0) + C * s;
}

__global__ void descend(float *w, const float *g, float eta, int n)
{
	int k = blockIdx.x * blockDim.x + threadIdx.x;
	if (k < n)
		w[k] -= eta * g[k];
}

static void svm_init(struct svm *m, const struct dataset *ds, int batch)
{
	size_t bytes = (size_t)ds->classes * (ds->d + 1) * sizeof(float);
	m->d = ds->d;
	m->classes = ds->classes;
	m->C = 0.5f;
	m->eta = 0.02f;
	if (cudaMalloc((void **)&m->w, bytes) || cudaMalloc((void **)&m->g, bytes) ||
	    cudaMalloc((void **)&m->margin, batch * m->classes * sizeof(float)) ||
	    cudaMalloc((void **)&m->loss, batch * sizeof(float)))
		die("out of device memory");
	cudaMemset(m->w, 0, bytes);
}

int main(int argc, char **argv)
{
	struct dataset ds;
	struct svm m;
	int batch, iters, it, i;
	float *hx, *hl, *dx;
	int *hy, *dy;

	read_csv(argc > 1 ? argv[1] : "data.csv", &ds);
	batch = argc > 2 ? atoi(argv[2]) : 96;
	iters = argc > 3 ? atoi(argv[3]) : 100;
	printf("%d samples, %d features, %d classes\n", ds.n, ds.d, ds.classes);
	svm_init(&m, &ds, batch);
	hx = (float *)malloc(batch * ds.d * sizeof(float));
	hy = (int *)malloc(batch * sizeof(int));
	hl = (float *)malloc(batch * sizeof(float));
	if (cudaMalloc((void **)&dx, batch * ds.d * sizeof(float)) || cudaMalloc((void **)&dy, batch * sizeof(int)))
		die("out of device memory");

	srand(3);
	for (it = 0; it < iters; it++) {
		int nw = m.classes * (m.d + 1);
		float eta = m.eta / (1.0f + 0.05f * it);
		/* sample with replacement */
		for (i = 0; i < batch; i++) {
			int s = rand() % ds.n;
			memcpy(hx + i * ds.d, ds.x + (size_t)s * ds.d, ds.d * sizeof(float));
			hy[i] = ds.y[s];
		}
		cudaMemcpy(dx, hx, batch * ds.d * sizeof(float), cudaMemcpyHostToDevice);
		cudaMemcpy(dy, hy, batch * sizeof(int), cudaMemcpyHostToDevice);
		hinge<<<(batch + THREADS - 1) / THREADS, THREADS>>>(dx, dy, m.w, m.margin, m.loss, batch, m.d, m.classes);
		subgradient<<<(nw + THREADS - 1) / THREADS, THREADS>>>(dx, m.w, m.margin, m.g, m.C, batch, m.d, m.classes);
		descend<<<(nw + THREADS - 1) / THREADS, THREADS>>>(m.w, m.g, eta, nw);
		if (it % 10 == 9 || it == 0) {
			double l = 0;
			cudaMemcpy(hl, m.loss, batch * sizeof(float), cudaMemcpyDeviceToHost);
			for (i = 0; i < batch; i++)
				l += hl[i];
			printf("iteration %d hinge loss %g\n", it + 1, l / batch);
		}
	}
	if (cudaDeviceSynchronize() != cudaSuccess)
		die("kernel failed");
	cudaFree(m.w); cudaFree(m.g); cudaFree(m.margin); cudaFree(m.loss);
	cudaFree(dx); cudaFree(dy);
	free(hx); free(hy); free(hl); free(ds.x); free(ds.y);
	return 0;
}
