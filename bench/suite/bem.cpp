// SPDX-License-Identifier: MIT
// A boundary element solver, in the place of BEMengine: electrostatics. Which charge density s on the surface of a
// sphere makes the potential there that of a point charge p outside of it?
//
//     integral over the surface of s(y) / (4 pi |x - y|) dS(y) = 1 / |x - p|   for every x on the surface
//
// (Laplace's equation within, as a single-layer potential; the permittivity is 1.) The sphere, of radius 1, is cut into
// N four-sided panels on which s is constant; at the centre x_i of each, the equation says
//
//     sum over j of G_ij s_j = 1 / |x_i - p|,   G_ij = integral over panel j of 1 / (4 pi |x_i - y|) dS(y)
//
// G_ij is area / (4 pi distance) for far panels, a sum over four parts for near ones, and for i = j that of a square of
// the same area, area's root times ln(1 + root 2) / pi. By the mean value theorem the whole charge is 4 pi / |p|: this
// is checked, and so is the residual.
//
// Three parts run on all threads and are timed apart, as in the paper:
//   registration    every equation's coefficients, in a chain of blocks of 224 bytes (table 4: 225.7 on average), and
//                   the list of its nearest panels, whose nodes come and go while it is searched for
//   preconditioner  a row of the inverse of the nearest panels' part of G for each equation: small matrices of rows
//   solver          GMRES; hardly any allocation, all memory is read once an iteration
// and then all is freed (release), each equation by another thread than the one that made it. Table 4 has 599,145,176
// bytes in use: that is the default. An operation is a coefficient.
#include <math.h>

#include "suite.hpp"

namespace {

constexpr size_t kCoefficients = 27, kNear = 24, kMostIterations = 60;
constexpr double kPi = 3.14159265358979323846, kWanted = 1e-9;

struct Point {
  double x, y, z;
};

constexpr Point kCharge = {1.2, 0.6, 0.4};  // p; |p| = 1.4

struct Panel {
  Point centre, parts[4];
  double area, potential;
};

struct Block {
  Block* next;
  double values[kCoefficients];
};

struct Near {
  Near* next;  // the one that is nearer
  double square;
  uint32_t panel;
};

struct Equation {
  Block* first;
  Near* farthest;    // of the nearest
  uint32_t* places;  // of the panels that the inverse's row has
  double* inverse;
};

struct Body {
  size_t edge, count, threads;  // panels of an edge of a cube's face; 6 edge^2 in all
  Panel** panels;
  Equation** equations;
};

double square_distance(const Point& a, const Point& b) {
  double x = a.x - b.x, y = a.y - b.y, z = a.z - b.z;
  return x * x + y * y + z * z;
}

// A point of a face of the cube from -1 to 1, moved to the sphere.
Point on_sphere(size_t face, double u, double v) {
  double sign = face % 2 == 0 ? 1 : -1, length = sqrt(1 + u * u + v * v);
  Point point = face < 2 ? Point{sign, u, v} : face < 4 ? Point{v, sign, u} : Point{u, v, sign};
  return {point.x / length, point.y / length, point.z / length};
}

// Panels have the same angle along their faces' middle lines.
double line(size_t place, size_t halves) {
  return tan(kPi / 4 * (2 * static_cast<double>(place) / static_cast<double>(halves) - 1));
}

double triangle(const Point& a, const Point& b, const Point& c) {
  Point p = {b.x - a.x, b.y - a.y, b.z - a.z}, q = {c.x - a.x, c.y - a.y, c.z - a.z};
  return sqrt(square_distance({p.y * q.z, p.z * q.x, p.x * q.y}, {p.z * q.y, p.x * q.z, p.y * q.x})) / 2;
}

Panel* make_panel(const Body& body, size_t index) {
  Panel* panel = suite::make<Panel>();
  size_t face = index / (body.edge * body.edge), column = index % body.edge, row = index / body.edge % body.edge;
  Point corners[4];
  for (size_t i = 0; i < 4; ++i) {
    corners[i] = on_sphere(face, line(column + i % 2, body.edge), line(row + i / 2, body.edge));
    panel->parts[i] = on_sphere(face, line(4 * column + 1 + 2 * (i % 2), 4 * body.edge),
                                line(4 * row + 1 + i / 2 * 2, 4 * body.edge));
  }
  panel->centre = on_sphere(face, line(2 * column + 1, 2 * body.edge), line(2 * row + 1, 2 * body.edge));
  panel->potential = 1 / sqrt(square_distance(panel->centre, kCharge));
  panel->area = triangle(corners[0], corners[1], corners[2]) + triangle(corners[1], corners[2], corners[3]);
  return panel;
}

double coefficient(const Point& at, const Panel& panel, double square) {
  if (square == 0) return sqrt(panel.area) * log(1 + sqrt(2)) / kPi;
  if (square > 16 * panel.area) return panel.area / (4 * kPi * sqrt(square));
  double sum = 0;
  for (const Point& part : panel.parts) sum += 1 / sqrt(square_distance(at, part));
  return sum * panel.area / (16 * kPi);
}

// Keeps the nearest panels in a list, the farthest first.
size_t keep_near(Equation& equation, size_t kept, uint32_t panel, double square) {
  if (kept == kNear && square >= equation.farthest->square) return kept;
  Near* near = suite::make<Near>();
  near->panel = panel;
  near->square = square;
  Near** place = &equation.farthest;
  while (*place != nullptr && (*place)->square > square) place = &(*place)->next;
  near->next = *place;
  *place = near;
  if (kept < kNear) return kept + 1;
  Near* last = equation.farthest;
  equation.farthest = last->next;
  suite::release(last);
  return kept;
}

Equation* register_equation(const Body& body, size_t index) {
  Equation* equation = suite::make<Equation>();
  const Point& at = body.panels[index]->centre;
  Block** end = &equation->first;
  for (size_t j = 0, kept = 0; j < body.count; ++j) {
    if (j % kCoefficients == 0) {
      *end = static_cast<Block*>(suite::allocate(sizeof(Block)));
      (*end)->next = nullptr;
    }
    double square = square_distance(at, body.panels[j]->centre);
    (*end)->values[j % kCoefficients] = coefficient(at, *body.panels[j], square);
    kept = keep_near(*equation, kept, static_cast<uint32_t>(j), square);
    if (j % kCoefficients == kCoefficients - 1) end = &(*end)->next;
  }
  return equation;
}

// The row of equation `index` in the inverse of the part of G that the nearest panels are: solves G' y = e.
void make_inverse(const Body& body, size_t index) {
  Equation& equation = *body.equations[index];
  uint32_t* places = equation.places = suite::make<uint32_t>(kNear);
  double* right = equation.inverse = suite::make<double>(kNear);
  size_t count = 0;
  for (Near* near = equation.farthest; near != nullptr; near = near->next) places[count++] = near->panel;
  double* rows[kNear];
  for (size_t i = 0; i < count; ++i) {
    rows[i] = suite::make<double>(count);
    const Panel& panel = *body.panels[places[i]];
    for (size_t j = 0; j < count; ++j) {
      const Point& at = body.panels[places[j]]->centre;
      rows[i][j] = coefficient(at, panel, square_distance(at, panel.centre));
    }
    right[i] = places[i] == index ? 1 : 0;
  }
  // The diagonal is the largest of each column, so that rows stay where they are.
  for (size_t k = 0; k < count; ++k) {
    for (size_t i = k + 1; i < count; ++i) {
      double factor = rows[i][k] / rows[k][k];
      for (size_t j = k; j < count; ++j) rows[i][j] -= factor * rows[k][j];
      right[i] -= factor * right[k];
    }
  }
  for (size_t k = count; k-- > 0;) {
    for (size_t j = k + 1; j < count; ++j) right[k] -= rows[k][j] * right[j];
    right[k] /= rows[k][k];
    suite::release(rows[k]);
  }
}

void release_equation(Equation* equation) {
  while (Block* block = equation->first) {
    equation->first = block->next;
    suite::release(block);
  }
  while (Near* near = equation->farthest) {
    equation->farthest = near->next;
    suite::release(near);
  }
  suite::release(equation->places);
  suite::release(equation->inverse);
  suite::release(equation);
}

// GMRES with the preconditioner on the left. Threads share the products with G; all sums are one thread's, so that the
// result does not depend on their number.
class Solver {
 public:
  explicit Solver(const Body& body) : body_(body), barrier_(body.threads), product_(suite::make<double>(body.count)) {}
  ~Solver() {
    for (size_t i = 0; i <= steps_; ++i) suite::release(basis_[i]);
    suite::release(product_);
  }

  // Every thread calls it. The densities, a block, from the first thread; null from the others.
  double* run(size_t thread) {
    if (thread == 0) {
      for (size_t i = 0; i < body_.count; ++i) product_[i] = body_.panels[i]->potential;
      basis_[0] = preconditioned();
      size_ = length(basis_[0]);
      rest_[0] = size_;
      scale(basis_[0], 1 / size_);
    }
    while (!done_) {
      barrier_.wait();
      multiply(thread, basis_[steps_]);
      barrier_.wait();
      if (thread == 0) step();
      barrier_.wait();
    }
    return thread == 0 ? combine() : nullptr;
  }

  // |G s - right| / |right|; one thread.
  double residual(const double* densities) {
    double sum = 0, right = 0;
    for (size_t t = 0; t < body_.threads; ++t) multiply(t, densities);
    for (size_t i = 0; i < body_.count; ++i) {
      double wanted = body_.panels[i]->potential;
      sum += (product_[i] - wanted) * (product_[i] - wanted);
      right += wanted * wanted;
    }
    return sqrt(sum / right);
  }

  size_t steps() const { return steps_; }

 private:
  void multiply(size_t thread, const double* vector) {
    size_t from = body_.count * thread / body_.threads, to = body_.count * (thread + 1) / body_.threads;
    for (size_t i = from; i < to; ++i) {
      double sum = 0;
      size_t j = 0;
      for (const Block* block = body_.equations[i]->first; block != nullptr; block = block->next) {
        size_t count = body_.count - j < kCoefficients ? body_.count - j : kCoefficients;
        for (size_t k = 0; k < count; ++k) sum += block->values[k] * vector[j + k];
        j += count;
      }
      product_[i] = sum;
    }
  }

  double* preconditioned() const {
    double* result = suite::make<double>(body_.count);
    for (size_t i = 0; i < body_.count; ++i) {
      const Equation& equation = *body_.equations[i];
      for (size_t k = 0; k < kNear; ++k) result[i] += equation.inverse[k] * product_[equation.places[k]];
    }
    return result;
  }

  double dot(const double* a, const double* b) const {
    double sum = 0;
    for (size_t i = 0; i < body_.count; ++i) sum += a[i] * b[i];
    return sum;
  }
  double length(const double* a) const { return sqrt(dot(a, a)); }
  void scale(double* a, double by) const {
    for (size_t i = 0; i < body_.count; ++i) a[i] *= by;
  }
  void add(double* a, const double* b, double by) const {
    for (size_t i = 0; i < body_.count; ++i) a[i] += b[i] * by;
  }

  // One more direction, by Arnoldi's method, and Givens' rotations of the small system.
  void step() {
    size_t n = steps_++;
    double* next = basis_[n + 1] = preconditioned();
    double* column = small_[n];
    for (size_t i = 0; i <= n; ++i) {
      column[i] = dot(next, basis_[i]);
      add(next, basis_[i], -column[i]);
    }
    double left = length(next);
    scale(next, 1 / left);
    for (size_t i = 0; i < n; ++i) {
      double upper = cosines_[i] * column[i] + sines_[i] * column[i + 1];
      column[i + 1] = cosines_[i] * column[i + 1] - sines_[i] * column[i];
      column[i] = upper;
    }
    double both = sqrt(column[n] * column[n] + left * left);
    cosines_[n] = column[n] / both;
    sines_[n] = left / both;
    column[n] = both;
    rest_[n + 1] = -sines_[n] * rest_[n];
    rest_[n] *= cosines_[n];
    done_ = fabs(rest_[n + 1]) < kWanted * size_ || steps_ == kMostIterations;
  }

  double* combine() {
    double* result = suite::make<double>(body_.count);
    for (size_t k = steps_; k-- > 0;) {
      for (size_t j = k + 1; j < steps_; ++j) rest_[k] -= small_[j][k] * rest_[j];
      rest_[k] /= small_[k][k];
      add(result, basis_[k], rest_[k]);
    }
    return result;
  }

  const Body& body_;
  suite::Barrier barrier_;
  double* product_;
  double* basis_[kMostIterations + 1] = {};
  double small_[kMostIterations][kMostIterations + 1] = {};
  double rest_[kMostIterations + 1] = {}, cosines_[kMostIterations] = {}, sines_[kMostIterations] = {}, size_ = 0;
  size_t steps_ = 0;
  bool done_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "bem", "Hoard 5.2, figures 3e and 3f, tables 2 and 4 (BEMengine)",
                 "a boundary element solver: registration, preconditioner, solver");
  Body body{};
  body.threads = run.threads(1);
  size_t coefficients = run.scaled("coefficients", 68'000'000, "coefficients of all equations; panels are its root");
  run.begin(body.threads);

  body.edge = static_cast<size_t>(sqrt(sqrt(static_cast<double>(coefficients)) / 6) + 0.5);
  if (body.edge < 4) body.edge = 4;
  body.count = 6 * body.edge * body.edge;
  body.panels = suite::table<Panel*>(body.count);
  body.equations = suite::table<Equation*>(body.count);
  suite::Barrier barrier(body.threads);
  suite::Moment moments[6] = {};
  double charge = 0, residual = 0;
  size_t iterations = 0;
  static Solver* solver;
  bench::run_threads(body.threads, [&](size_t thread) {
    // The equations of one thread, or of its neighbour.
    auto each = [&](size_t part, auto&& work) {
      size_t from = body.count * part / body.threads, to = body.count * (part + 1) / body.threads;
      for (size_t i = from; i < to; ++i) work(i);
    };
    run.start(thread);
    if (thread == 0) moments[0] = suite::Moment::now();
    each(thread, [&](size_t i) { body.panels[i] = make_panel(body, i); });
    barrier.wait();
    each(thread, [&](size_t i) { body.equations[i] = register_equation(body, i); });
    barrier.wait([&] { moments[1] = suite::Moment::now(); });
    each(thread, [&](size_t i) { make_inverse(body, i); });
    barrier.wait([&] {
      moments[2] = suite::Moment::now();
      solver = new (suite::allocate(sizeof(Solver))) Solver(body);
    });
    double* densities = solver->run(thread);
    barrier.wait([&] { moments[3] = suite::Moment::now(); });
    if (thread == 0) {
      for (size_t i = 0; i < body.count; ++i) charge += densities[i] * body.panels[i]->area;
      residual = solver->residual(densities);
      iterations = solver->steps();
      run.sample();
      suite::release(densities);
      solver->~Solver();
      suite::release(solver);
    }
    barrier.wait([&] { moments[4] = suite::Moment::now(); });
    each((thread + 1) % body.threads, [&](size_t i) {
      release_equation(body.equations[i]);
      suite::release(body.panels[i]);
    });
    barrier.wait([&] { moments[5] = suite::Moment::now(); });
    run.stop();
  });
  suite::require(residual < 1e-6, "the solution does not solve the equations");
  suite::require(fabs(charge / (4 * kPi) * 1.4 - 1) < 0.03, "the charge is wrong");
  static constexpr const char* kPhases[] = {"registration", "preconditioner", "solver", "check", "release"};
  for (size_t i = 0; i < 5; ++i) run.phase(kPhases[i], moments[i], moments[i + 1]);
  run.add("panels", static_cast<double>(body.count));
  run.add("iterations", static_cast<double>(iterations));
  run.add("charge", charge / (4 * kPi) * 1.4);
  run.live(body.count * ((body.count / kCoefficients + 1) * sizeof(Block) + sizeof(Equation) + sizeof(Panel) +
                         kNear * (sizeof(Near) + sizeof(uint32_t) + sizeof(double))));
  run.report(body.count * body.count, suite::mix(static_cast<uint64_t>(charge * 1e9)) + iterations);
}
