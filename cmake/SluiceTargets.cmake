# sluice_options: what every target of ours is compiled with.
add_library(sluice_options INTERFACE)
target_compile_options(sluice_options INTERFACE -Wall -Wextra -Wconversion
                       $<$<BOOL:${SLUICE_WARNINGS_AS_ERRORS}>:-Werror>)
target_include_directories(sluice_options INTERFACE ${PROJECT_SOURCE_DIR})

# sluice_library(NAME SOURCES... [LINK libraries...])
function(sluice_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC sluice_options ${ARG_LINK})
endfunction()

# sluice_test(NAME SOURCES... [LINK libraries...] [LABELS labels...]): a GoogleTest executable run by CTest
# (working directory: the source tree), labelled quick unless said otherwise.
function(sluice_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE sluice_options ${ARG_LINK} GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(NOT ARG_LABELS)
    set(ARG_LABELS quick)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900) # seconds each by themselves, ten times that under the sanitizers, more on a busy machine
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()

# sluice_mpi_test(NAME SOURCES... RANKS n... [NODES k] [LINK libraries...] [LABELS labels...] [TIMEOUT s]):
# a GoogleTest executable that CTest runs under mpiexec, once for each number of ranks (tests/mpi/main.cpp).
# NODES: MPICH treats the ranks as k nodes, block-wise (at most one node a rank). A wait of more than a minute fails.
function(sluice_mpi_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;NODES" "RANKS;LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE sluice_options ${ARG_LINK} sluice_mpi_test_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(NOT ARG_LABELS)
    set(ARG_LABELS quick)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT ARG_NODES)
    set(ARG_NODES 1)
  endif()
  foreach(ranks IN LISTS ARG_RANKS)
    set(nodes ${ARG_NODES})
    if(nodes GREATER ranks)
      set(nodes ${ranks})
    endif()
    add_test(NAME ${name}_${ranks} COMMAND ${MPIEXEC_EXECUTABLE} -n ${ranks} $<TARGET_FILE:${name}>
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${name}_${ranks} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} PROCESSORS 2
      ENVIRONMENT "SLUICE_WAIT_LIMIT=60;MPIR_CVAR_NUM_CLIQUES=${nodes};MPIR_CVAR_CLIQUES_BY_BLOCK=1")
  endforeach()
endfunction()
