// Sets the seed of the property tests. CI uses a fixed seed: a retry finds the same counterexample, and no change fails because
// of a defect that an earlier change introduced. Elsewhere the seed is random and is printed with a failure.
import fc from 'fast-check'

if (process.env.CI) fc.configureGlobal({ seed: 1 })
