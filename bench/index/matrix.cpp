// SPDX-License-Identifier: MIT
// Paper 3's Gauss and DotProduct: matrices whose rows are allocated apart, worked through column by column, so that
// neighbours of an element are used again only if their line has stayed. A step is an element of the inner loop.
//   kernel=gauss   elimination with partial pivots      kernel=dot   dot products of all rows, all at a time
#include "walk.hpp"

namespace {

struct Matrix {
  size_t order;
  double** rows;

  void fill() {
    bench::Random random(7);
    for (size_t i = 0; i < order; ++i) {
      for (size_t j = 0; j < order; ++j) rows[i][j] = static_cast<double>(random.below(1000)) + (i == j ? 10'000 : 1);
    }
  }
};

// Columns are what the inner loops go down; `columns` of them.
template <class See>
size_t eliminate(Matrix& m, size_t columns, See see) {
  size_t steps = 0;
  for (size_t k = 0; k < columns; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < m.order; ++i, ++steps) {
      see(&m.rows[i][k]);
      if (__builtin_fabs(m.rows[i][k]) > __builtin_fabs(m.rows[pivot][k])) pivot = i;
    }
    double* row = m.rows[pivot];
    m.rows[pivot] = m.rows[k];
    m.rows[k] = row;
    for (size_t j = k + 1; j < m.order; ++j) {
      see(&row[j]);
      const double factor = row[j] / row[k];
      for (size_t i = k + 1; i < m.order; ++i, ++steps) {
        see(&m.rows[i][k]);
        see(&m.rows[i][j]);
        m.rows[i][j] -= m.rows[i][k] * factor;
      }
    }
  }
  return steps;
}

template <class See>
double multiply(const Matrix& m, const double* by, double* sums, See see) {
  for (size_t i = 0; i < m.order; ++i) sums[i] = 0;
  for (size_t j = 0; j < m.order; ++j) {
    for (size_t i = 0; i < m.order; ++i) {
      see(&m.rows[i][j]);
      sums[i] += m.rows[i][j] * by[j];
    }
  }
  return sums[m.order - 1];
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  size_t order = arguments.number("order", 200), steps = arguments.number("operations", 10'000'000);
  bool gauss = strcmp(arguments.text("kernel", "gauss"), "gauss") == 0;
  bool list = arguments.number("list", 0) != 0;
  arguments.done();

  Matrix matrix{order, static_cast<double**>(bench::allocate(order * sizeof(double*)))};
  for (size_t i = 0; i < order; ++i) matrix.rows[i] = static_cast<double*>(bench::allocate(order * sizeof(double)));
  double* by = static_cast<double*>(bench::allocate(order * sizeof(double)));
  double* sums = static_cast<double*>(bench::allocate(order * sizeof(double)));
  for (size_t i = 0; i < order; ++i) by[i] = 1.5;
  matrix.fill();
  if (!gauss) {
    walk::run(list, steps / (order * order), order * order, [&](auto see) {
      walk::use(static_cast<uint64_t>(multiply(matrix, by, sums, see)));
      walk::barrier();
    });
    return 0;
  }
  // A list of all columns would be very long, and the later ones show nothing else.
  const size_t columns = list ? 4 : order - 1;
  Matrix copy{order, bench::table<double*>(order)};
  memcpy(copy.rows, matrix.rows, order * sizeof(double*));
  const size_t lap = eliminate(copy, columns, [](const void*) {});
  walk::run(list, steps / lap, lap, [&](auto see) {
    memcpy(copy.rows, matrix.rows, order * sizeof(double*));
    copy.fill();
    eliminate(copy, columns, see);
  });
}
