// flags: -I /usr/include/eigen3
// needs: /usr/include/eigen3/Eigen/Dense of libeigen3-dev
// Eigen's matrices on the host, and small ones in kernels.
#include <Eigen/Dense>

FEATURE(a_file_with_kernels_uses_eigen_on_the_host)
{
    Eigen::MatrixXd m(2, 2);
    m << 1, 2, 3, 4;
    const Eigen::MatrixXd squared = m * m;
    EXPECT(squared(0, 0) == 7 && squared(1, 1) == 22);
    EXPECT(m.inverse().isApprox((Eigen::MatrixXd(2, 2) << -2, 1, 1.5, -0.5).finished()));
}

__global__ void
turn(const Eigen::Matrix2f *m, Eigen::Vector2f *v, float *norms)
{
    Eigen::Vector3f own(1, 2, static_cast<float>(threadIdx.x));
    norms[threadIdx.x] = own.squaredNorm();
    if (threadIdx.x == 0)
        *v = *m * *v;
}

FEATURE(kernels_use_eigens_small_matrices)
{
    auto *m = static_cast<Eigen::Matrix2f *>(managed(sizeof(Eigen::Matrix2f)));
    auto *v = static_cast<Eigen::Vector2f *>(managed(sizeof(Eigen::Vector2f)));
    float *norms = managed(4 * sizeof(float));
    *m << 0, -1, 1, 0;
    *v << 1, 2;
    turn<<<1, 4>>>(m, v, norms);
    EXPECT(done() && (*v)[0] == -2 && (*v)[1] == 1);
    EXPECT(norms[0] == 5 && norms[3] == 14);
}
