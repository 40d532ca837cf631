#pragma once

/// Between the program and MPI (PMPI): from here on, flips a bit (of the exponent of a float that is not 0,
/// if there is one) behind the middle of the `nth` message (0: the next) of at
/// least `bytes` bytes that this process sends or, as root, broadcasts. Preloaded, it takes "RANK NTH BYTES" from
/// SLUICE_TEST_FLIP_BIT.
extern "C" void flip_bit_of(long nth, long bytes);
