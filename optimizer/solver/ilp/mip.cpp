#include "optimizer/solver/ilp/mip.h"

namespace sluice {

void append(Terms& sum, const Terms& more, double factor) {
  for (const Term& term : more) sum.push_back({term.column, factor * term.coefficient});
}

int Mip::add(const Column& column) {
  columns.push_back(column);
  return static_cast<int>(columns.size()) - 1;
}

void Mip::at_most(double upper, Terms terms) { rows.push_back({-kUnbounded, upper, std::move(terms)}); }
void Mip::at_least(double lower, Terms terms) { rows.push_back({lower, kUnbounded, std::move(terms)}); }
void Mip::equal(double value, Terms terms) { rows.push_back({value, value, std::move(terms)}); }

void Mip::one_where(int result, std::initializer_list<Terms> all, std::initializer_list<Terms> none) {
  Terms terms{{result, 1}};
  for (const Terms& sum : all) append(terms, sum, -1);
  for (const Terms& sum : none) append(terms, sum, +1);
  at_least(1 - static_cast<double>(all.size()), std::move(terms));
}

}  // namespace sluice
