//! The damaged-blender run, played against everything in one process.
