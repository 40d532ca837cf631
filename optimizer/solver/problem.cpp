#include "optimizer/solver/problem.h"

namespace sluice {

const char* to_string(Cuts cuts) {
  switch (cuts) {
    case Cuts::joint:
      return "joint";
    case Cuts::independent:
      return "independent";
    case Cuts::three:
      return "three";
  }
  return "unknown";
}

}  // namespace sluice
