# Every package that Sluice links, found in one place.
# Serial HDF5 on purpose: FindHDF5 and pkg-config may disagree when Debian's
# serial and MPI variants are both installed, and mixing them links in silence.
set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 1.10 REQUIRED COMPONENTS C)
if(HDF5_IS_PARALLEL)
  message(FATAL_ERROR "HDF5 at ${HDF5_C_INCLUDE_DIRS} is the MPI variant; Sluice wants the serial one. "
                      "Point CMake at it: -DHDF5_ROOT=/path/to/serial/hdf5")
endif()
add_library(sluice_hdf5 INTERFACE)
target_include_directories(sluice_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(sluice_hdf5 INTERFACE ${HDF5_C_LIBRARIES})

find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(nlohmann_json 3.9 REQUIRED)
find_package(ZLIB REQUIRED)

# CBC's C interface; the solver is driven through CBC's main program, which is a library of its own.
find_path(CBC_INCLUDE_DIR Cbc_C_Interface.h PATH_SUFFIXES coin coin-or REQUIRED)
find_library(CBC_SOLVER_LIBRARY CbcSolver REQUIRED)
add_library(sluice_cbc INTERFACE)
target_include_directories(sluice_cbc SYSTEM INTERFACE ${CBC_INCLUDE_DIR})
target_link_libraries(sluice_cbc INTERFACE ${CBC_SOLVER_LIBRARY})

if(SLUICE_RUNTIME)
  # Debian may have several MPIs; ours is MPICH unless the user says otherwise.
  find_program(SLUICE_MPICXX NAMES mpicxx.mpich mpicxx)
  if(SLUICE_MPICXX AND NOT MPI_CXX_COMPILER)
    set(MPI_CXX_COMPILER ${SLUICE_MPICXX} CACHE FILEPATH "MPI compiler wrapper")
  endif()
  find_program(MPIEXEC_EXECUTABLE NAMES mpiexec.mpich mpiexec)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI 3.1 REQUIRED COMPONENTS CXX)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  find_package(dnnl 2.6 REQUIRED CONFIG)
  find_package(Threads REQUIRED)
endif()

if(BUILD_TESTING)
  find_package(GTest 1.12 REQUIRED)
endif()
