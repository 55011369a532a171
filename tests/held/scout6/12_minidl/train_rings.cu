// Example: classify points in rings of different radii in 10 dimensions.
#include <cmath>
#include <cstdio>
#include "minidl/data.h"
#include "minidl/nn.h"

using namespace minidl;

static Dataset rings(int n, unsigned seed)
{
    std::mt19937 rng(seed);
    std::normal_distribution<float> nd;
    Dataset ds;
    ds.features = 10;
    ds.classes = 3;
    for (int i = 0; i < n; ++i) {
        int label = rng() % 3;
        float v[10], norm = 0;
        for (float& e : v) {
            e = nd(rng);
            norm += e * e;
        }
        float radius = 0.7f + 0.8f * label + 0.1f * nd(rng);
        for (float e : v)
            ds.x.push_back(e / std::sqrt(norm) * radius);
        ds.y.push_back(label);
    }
    return ds;
}

static float accuracy(Module& model, const Dataset& ds)
{
    Tensor logits = model.forward(Tensor::from_host(ds.x, ds.size(), ds.features));
    std::vector<float> z = logits.to_host();
    int ok = 0;
    for (int i = 0; i < ds.size(); ++i) {
        int best = 0;
        for (int c = 1; c < ds.classes; ++c)
            if (z[i * ds.classes + c] > z[i * ds.classes + best])
                best = c;
        ok += best == ds.y[i];
    }
    return float(ok) / ds.size();
}

int main()
{
    Dataset train = rings(1300, 1), test = rings(300, 2);
    DataLoader loader(train, 64, true, 3);

    std::mt19937 rng(4);
    Sequential model;
    model.add<Linear>(10, 48, rng).add<LeakyReLU>(0.1f).add<Linear>(48, 32, rng).add<LeakyReLU>(0.1f).add<Linear>(32, 3, rng);
    CrossEntropyLoss criterion;
    AdamW optimizer(model.parameters(), 5e-3f);

    for (int epoch = 1; epoch <= 6; ++epoch) {
        float loss = 0;
        Batch batch;
        loader.reset();
        while (loader.next(batch)) {
            optimizer.zero_grad();
            Tensor out = model.forward(batch.x);
            loss += criterion(out, batch.y);
            model.backward(criterion.backward());
            optimizer.step();
        }
        std::printf("epoch %d: loss %.4f, test accuracy %.3f\n", epoch, loss / loader.batches(), accuracy(model, test));
        optimizer.lr *= 0.8f;
    }
    return 0;
}
