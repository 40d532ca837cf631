#pragma once

/// Every MPI call goes through here, in every build type.
namespace sluice {

/// @param code  what the MPI function `call` returned
/// @throws Error (runtime fault) with MPI's own words if it is not MPI_SUCCESS.
void check_mpi(int code, const char* call);

}  // namespace sluice
