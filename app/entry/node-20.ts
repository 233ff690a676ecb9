// Polyfills for language features that Node 20 lacks. Newer versions use their own implementation.

if (!('withResolvers' in Promise))
  Object.defineProperty(Promise, 'withResolvers', {
    value: function withResolvers<T>(): PromiseWithResolvers<T> {
      let resolve: PromiseWithResolvers<T>['resolve'] = () => {}
      let reject: PromiseWithResolvers<T>['reject'] = () => {}
      const promise = new Promise<T>((fulfil, refuse) => {
        resolve = fulfil
        reject = refuse
      })
      return { promise, resolve, reject }
    },
  })

if (!('groupBy' in Map))
  Object.defineProperty(Map, 'groupBy', {
    value: function groupBy<K, T>(items: Iterable<T>, keyOf: (item: T, index: number) => K): Map<K, T[]> {
      const groups = new Map<K, T[]>()
      let index = 0
      for (const item of items) {
        const key = keyOf(item, index++)
        const group = groups.get(key)
        if (group === undefined) groups.set(key, [item])
        else group.push(item)
      }
      return groups
    },
  })
